"""What all tests share: a quiet TensorFlow, and a way to stay offline.

python -m pytest --offline          # nothing is installed or asked for
python -m pytest -m "not slow"
"""

import os

import pytest

# Before anything imports TensorFlow; child processes inherit it.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def pytest_addoption(parser):
    parser.addoption(
        "--offline",
        action="store_true",
        help="skip tests that install packages or ask a server outside",
    )


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--offline"):
        return
    skip = pytest.mark.skip(reason="needs the network (--offline was given)")
    for item in items:
        if "network" in item.keywords:
            item.add_marker(skip)
