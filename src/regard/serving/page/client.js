// The client of the API. The response to a request that a newer one replaces is dropped.

const TOKEN_KEY = "regard-token"; // in this tab's session storage
const MAX_RETRY_SECONDS = 60;

/** An error response of the server. */
class ApiError extends Error {
  constructor(status, detail, retryAfter) {
    super(detail);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

let storedToken = null;

export function storeToken(token) {
  try {
    sessionStorage.setItem(TOKEN_KEY, token);
  } catch {
    // Without storage, the page asks for the token again after a reload.
  }
  storedToken = token;
}

function currentToken() {
  try {
    return storedToken ?? sessionStorage.getItem(TOKEN_KEY);
  } catch {
    return null;
  }
}

/** The JSON response of an API call. `requestToken(error)` returns a token when the server requires one. */
export async function callApi(path, requestToken, body = null, signal = null) {
  const token = currentToken();
  const headers = { Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const response = await fetchOrThrow(path, {
    method: body ? "POST" : "GET",
    headers,
    body: body && JSON.stringify(body),
    signal,
  });
  if (response.ok) return response.json();
  const detail = (await response.json().catch(() => ({}))).detail ?? `The server returned status ${response.status}.`;
  if (response.status === 401) {
    if (currentToken() === token) storeToken(await requestToken(token ? detail : ""));
    signal?.throwIfAborted();
    return callApi(path, requestToken, body, signal);
  }
  throw new ApiError(response.status, String(detail), Number(response.headers.get("Retry-After")));
}

async function fetchOrThrow(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server cannot be reached. Is it still running?");
  }
}

/**
 * A function that requests a translation and aborts its previous request. It calls `onResult(translation, body)` or
 * `onError(message, isFinal)`, and retries after `Retry-After` seconds while the server is busy.
 */
export function latestTranslation(requestToken, onResult, onError) {
  let latest = new AbortController();
  return async (body) => {
    latest.abort();
    const current = new AbortController();
    latest = current;
    while (current === latest) {
      try {
        const response = await callApi("api/translate", requestToken, body, current.signal);
        if (current === latest) onResult(response.translations[0], body);
        return;
      } catch (error) {
        if (current !== latest || error.name === "AbortError") return;
        const isBusy = error.status === 429 || error.status === 503;
        onError(error.message.replace(/^texts\[0\]: /, ""), !isBusy); // there is only one text
        if (!isBusy) return;
        const seconds = Math.min(error.retryAfter || 1, MAX_RETRY_SECONDS);
        await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      }
    }
  };
}
