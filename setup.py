"""Packaging of vdsh_tf.

TensorFlow comes as an extra, because its two builds exclude each other:
`pip install vdsh_tf[cpu]` (small) or `vdsh_tf[gpu]`.
"""

import pathlib

import setuptools

HERE = pathlib.Path(__file__).parent
VERSION = next(
    line.split('"')[1]
    for line in (HERE / "vdsh_tf" / "__init__.py").read_text().splitlines()
    if line.startswith("__version__")
)
# The folders `export` and `tools` lie beside the package, and are installed
# inside it: a wheel brings one top-level module.
FOLDERS = {"vdsh_tf.export": "export", "vdsh_tf.tools": "tools"}
PACKAGES = [
    *setuptools.find_packages(include=["vdsh_tf*"]),
    *FOLDERS,
    "vdsh_tf.tools.benchmarks",
]
TENSORFLOW = ">=2.18,<2.22"
ONNX = ["onnx>=1.17", "onnxruntime>=1.20", "tf2onnx>=1.16.1"]
SEARCH = ["faiss-cpu>=1.8"]
LITERT = ["ai-edge-litert>=1.2"]
# What `vdsh_tf.research` and the benchmarks import beyond the core.
RESEARCH = [*SEARCH, "grpcio>=1.60", "scipy>=1.13", "threadpoolctl>=3.1"]
# milvus-lite 3 has no binary vectors; 2.5 imports pkg_resources, which
# setuptools 82 no longer has.
MILVUS = ["milvus-lite>=2.5,<3", "pymilvus>=2.5,<2.7", "setuptools<82"]
SERVE = [
    *SEARCH,
    "fastapi>=0.110",
    "httptools>=0.6",
    "orjson>=3.9",
    "pillow>=10.0",
    "prometheus-client>=0.20",
    "uvicorn>=0.30",
    "uvloop>=0.19; platform_system != 'Windows'",
]
# Ray Data reads and writes through pyarrow.
CLUSTER = ["pyarrow>=15.0", "ray[data]>=2.40"]
# Parquet, CSV and URLs of training data; .npy and TFRecord need neither.
SHARDS = ["fsspec>=2024.2", "pyarrow>=15.0"]
# mkdocs 2 has another configuration.
DOCS = [
    "mkdocs>=1.6,<2",
    "mkdocs-material>=9.5",
    "mkdocstrings[python]>=0.26",
]

setuptools.setup(
    name="vdsh_tf",
    version=VERSION,
    description="Very Deep Supervised Hashing: binary codes trained by ADMM",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=PACKAGES,
    package_dir=FOLDERS,
    package_data={"vdsh_tf": ["py.typed"], "vdsh_tf.service": ["page/*"]},
    entry_points={"console_scripts": ["vdsh=vdsh_tf.tools.vdsh:main"]},
    python_requires=">=3.11",
    install_requires=[
        "absl-py>=2.0",
        # Older ones may take a lock whose file another process has removed.
        "filelock>=3.20.4",
        # tensorflow-datasets needs it to prepare data and does not say so.
        "importlib_resources>=6.0",
        "keras>=3.6",
        "matplotlib>=3.8",
        "numpy>=2.0",
        "psutil>=5.9",
        "scikit-learn>=1.6",
        "simple-parsing>=0.1.7",
        # tf.summary writes through it.
        "tensorboard>=2.18",
        "tensorflow-datasets>=4.9.7",
        "tqdm>=4.60",
        *ONNX,
    ],
    extras_require={
        "cpu": [f"tensorflow-cpu{TENSORFLOW}"],
        "gpu": [f"tensorflow[and-cuda]{TENSORFLOW}"],
        "search": SEARCH,
        "milvus": MILVUS,
        "cluster": CLUSTER,
        "shards": SHARDS,
        "docs": DOCS,
        "litert": LITERT,
        "onnx": ONNX,
        "research": RESEARCH,
        "serve": SERVE,
        # tensorflow-serving-api asks for `tensorflow`, which is the same code
        # as `tensorflow-cpu`; add it with `pip install --no-deps` to save that.
        "serving": ["grpcio>=1.60", f"tensorflow-serving-api{TENSORFLOW}"],
        "test": [
            *RESEARCH,
            *MILVUS,
            *LITERT,
            *CLUSTER,
            *SERVE,
            *SHARDS,
            *DOCS,
            "hypothesis>=6.100",
            "ipykernel>=6.29",
            "mypy>=1.11",
            "nbclient>=0.10",
            "nbformat>=5.10",
            "pandas>=2.0",
            "pre-commit>=3.0",
            "pytest>=8.0",
            "pytest-xdist>=3.5",
            "ruff>=0.6",
        ],
    },
)
