// Asking the person for the server's token.

let asking = null;

/** A promise of the token. However many calls need one at a time, there is one dialog. */
export function askForToken(problem) {
  asking ??= openDialog(problem).finally(() => (asking = null));
  return asking;
}

function openDialog(problem) {
  const dialog = document.getElementById("token-dialog");
  const input = document.getElementById("token");
  document.getElementById("token-problem").textContent = problem;
  input.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => dialog.showModal(); // there is nothing to see without
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      dialog.onclose = null;
      dialog.close();
      resolve(input.value);
    };
  });
}
