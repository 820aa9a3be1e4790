// The dialog that asks the user for the server's access token.

let pending = null;

/** A promise of the token. Several calls at a time share one dialog. */
export function requestToken(error) {
  pending ??= openDialog(error).finally(() => (pending = null));
  return pending;
}

function openDialog(error) {
  const dialog = document.getElementById("token-dialog");
  const input = document.getElementById("token");
  document.getElementById("token-error").textContent = error;
  input.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => dialog.showModal(); // the page cannot work without a token
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      dialog.onclose = null;
      dialog.close();
      resolve(input.value);
    };
  });
}
