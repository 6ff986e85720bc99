"""Does what the README says on a machine that has nothing, by the clock.

    python -m tests.campaigns.from_clone

Clones this repository, makes a virtual environment, and runs in it the README's
commands that install, train and serve, until Chromium shows neighbours. Prints
the seconds of each step; installation should take two minutes at most, and all
together five. What is not committed is not tried.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from tests.support import javascript

ROOT = pathlib.Path(__file__).parents[2]
DRIVER = ROOT / "tests" / "support" / "first_neighbours.mjs"
INSTALL = "installation"


def commands(readme: str) -> list[str]:
    """The README's commands up to the one that serves, in their order."""
    blocks = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    lines = "".join(blocks).strip().splitlines()
    found = [part for line in lines for part in line.split(" && ")]
    last = next(i for i, part in enumerate(found) if "serve.py" in part)
    return found[: last + 1]


class Clock:
    """Seconds by step."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def tick(self, step: str) -> None:
        """What passed since the last tick belongs to this step."""
        now = time.monotonic()
        self.seconds[step] = self.seconds.get(step, 0) + now - self._last
        self._last = now


def walk(folder: str, clock: Clock) -> str:
    """Follows the README in a clone; what the page showed."""
    clone, venv = os.path.join(folder, "clone"), os.path.join(folder, "venv")
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    clock.tick("clone")
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    clock.tick(INSTALL)
    path = f"{venv}/bin{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "VIRTUAL_ENV": venv}
    environment.pop("PYTHONPATH", None)
    *before, serve = commands(pathlib.Path(clone, "README.md").read_text())
    for command in before:
        done = subprocess.run(
            command,
            shell=True,
            cwd=clone,
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        if done.returncode:
            raise RuntimeError(f"The README's command failed: {command}")
        clock.tick(INSTALL if "pip install" in command else command)
    process = subprocess.Popen(
        f"exec {serve} --port=0",
        shell=True,
        cwd=clone,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        lines = iter(process.stdout or [])
        address = next(line.split()[2] for line in lines if " at http" in line)
        clock.tick(serve)
        return see(address, clock)
    finally:
        process.terminate()
        process.wait(60)


def see(address: str, clock: Clock) -> str:
    """What Chromium shows at the address."""
    command = ["node", str(DRIVER), address, javascript.chromium()]
    done = subprocess.run(
        command,
        cwd=javascript.packages(),
        check=True,
        capture_output=True,
        text=True,
    )
    clock.tick("neighbours in Chromium")
    return done.stdout.strip()


def main() -> None:
    javascript.packages()
    clock = Clock()
    # What it installs takes a while to remove: that is not part of it.
    with tempfile.TemporaryDirectory() as folder:
        print(walk(folder, clock))
        for step, seconds in clock.seconds.items():
            print(f"{seconds:6.1f} s  {step}")
        total = sum(clock.seconds.values())
        print(f"{total:6.1f} s  from clone to neighbours", flush=True)


if __name__ == "__main__":
    main()
