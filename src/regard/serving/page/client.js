// Asking the server. An answer to a question that was overtaken by another one never arrives.

const TOKEN = "regard-token"; // its name in the storage of this tab
const LONGEST_WAIT = 60; // seconds

/** A server's no, with its own words. */
class Refusal extends Error {
  constructor(status, detail, retryAfter) {
    super(detail);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

export function keepToken(token) {
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    // Without storage, the token is asked for again after a reload.
  }
  heldToken = token;
}

let heldToken = null;

function currentToken() {
  try {
    return heldToken ?? sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

/** A call of the API. `askForToken(problem)` gives a token when the server wants one. */
export async function call(path, askForToken, body = null, signal = null) {
  const token = currentToken();
  const headers = { Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  const response = await reach(path, {
    method: body ? "POST" : "GET",
    headers,
    body: body && JSON.stringify(body),
    signal,
  });
  if (response.ok) return response.json();
  const detail = (await response.json().catch(() => ({}))).detail ?? `The server answered with ${response.status}.`;
  if (response.status === 401) {
    if (currentToken() === token) keepToken(await askForToken(token ? detail : ""));
    signal?.throwIfAborted();
    return call(path, askForToken, body, signal);
  }
  throw new Refusal(response.status, String(detail), Number(response.headers.get("Retry-After")));
}

async function reach(path, request) {
  try {
    return await fetch(path, request);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server cannot be reached. Is it still running?");
  }
}

/**
 * A function that asks for translations, of which only the latest question is answered: by `onAnswer(answer, question)`
 * or `onProblem(message, isFinal)`. A server that is busy is asked again when it says so.
 */
export function latestOnly(askForToken, onAnswer, onProblem) {
  let latest = new AbortController();
  return async (question) => {
    latest.abort();
    const mine = new AbortController();
    latest = mine;
    while (mine === latest) {
      try {
        const answer = await call("api/translate", askForToken, question, mine.signal);
        if (mine === latest) onAnswer(answer.translations[0], question);
        return;
      } catch (problem) {
        if (mine !== latest || problem.name === "AbortError") return;
        const isBusy = problem.status === 429 || problem.status === 503;
        onProblem(problem.message.replace(/^texts\[0\]: /, ""), !isBusy); // there is only one text here
        if (!isBusy) return;
        const seconds = Math.min(problem.retryAfter || 1, LONGEST_WAIT);
        await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      }
    }
  };
}
