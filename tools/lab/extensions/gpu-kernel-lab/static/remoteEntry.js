/* After “Run All”, JupyterLab selects the last cell, also where an earlier cell failed and the rest did not run
 * (github.com/jupyterlab/jupyterlab/issues/16402 and 8714). This plugin selects the cell that failed and shows its
 * message, unless the message is on the screen already.
 *
 * JupyterLab loads a prebuilt extension as a container of module federation: an object with `init` and `get`. This one
 * is written by hand, so that nothing has to be built and `git diff` shows all of it.
 */
(() => {
  const NAME = "gpu-kernel-lab";
  const DELAY = 500; // milliseconds; JupyterLab has then scrolled to the last cell
  const MESSAGE = ["error", "stderr"].map(kind => `[data-mime-type="application/vnd.jupyter.${kind}"]`).join(",");
  let shared;

  const failed = cell => {
    const outputs = cell.model?.outputs; // none for a text cell, or where the cell was removed
    for (let k = 0; k < (outputs?.length ?? 0); k++) if (outputs.get(k).type === "error") return true;
    return false;
  };

  const message = cell => [...cell.node.querySelectorAll(MESSAGE)].at(-1);

  const onScreen = (node, room) => {
    const [a, b] = [node.getBoundingClientRect(), room.getBoundingClientRect()];
    return a.height > 0 && a.top < b.bottom && a.bottom > b.top;
  };

  async function show(notebook, cell) {
    const index = notebook.widgets.indexOf(cell);
    if (index < 0 || !failed(cell)) return; // a cell behind the one that failed was not run: it has no error
    const said = message(cell);
    if (said && onScreen(said, notebook.node)) return;
    notebook.deselectAll();
    notebook.activeCellIndex = index;
    await notebook.scrollToItem(index, "smart").catch(() => {});
    message(cell)?.scrollIntoView({ block: "center" });
  }

  const plugin = {
    id: `${NAME}:show-failed-cell`,
    description: "After “Run All”, shows the cell that failed.",
    autoStart: true,
    activate: async () => {
      const [provided] = Object.values(shared["@jupyterlab/notebook"]);
      const { NotebookActions } = (await provided.get())();
      NotebookActions.executed.connect((_, { notebook, cell, success }) => {
        if (!success) setTimeout(show, DELAY, notebook, cell);
      });
    },
  };

  window._JUPYTERLAB ??= {};
  window._JUPYTERLAB[NAME] = {
    init: scope => {
      shared = scope;
    },
    get: async () => () => ({ __esModule: true, default: plugin }),
  };
})();
