#!/usr/bin/env bash
# Executes the notebooks, and a short training of the agents in ../learning, with the package `giveway` of $PYTHON (default: python3), which also needs
# gymnasium, matplotlib, nbclient, ipykernel and polars. With a directory, the notebooks' pictures are kept there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
pictures=${1:+$(realpath "$1")}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for notebook in "$here"/*.ipynb; do
    basename "$notebook"
    "$python" - "$notebook" <<'PYTHON'
import sys
import nbclient
import nbformat
from jupyter_client import AsyncKernelManager

notebook = nbformat.read(sys.argv[1], as_version=4)
# Over sockets in a directory of this user: by default a kernel listens on TCP ports of the machine.
kernel = AsyncKernelManager(kernel_name="python3", transport="ipc")
nbclient.NotebookClient(notebook, km=kernel, timeout=600).execute()
for cell in notebook.cells:
    assert cell.cell_type != "code" or cell.execution_count, cell.source
PYTHON
done
if [[ -n $pictures ]]; then
    cp ./*.png "$pictures/"
fi
"$python" "$here/../learning/agents.py" --generations 1 --population 5 --held-out 2
