"""What /docs says of bodies; they are checked by `bodies`, which is faster."""

from typing import Any

ROWS = {
    "type": "array",
    "description": "Raw rows, as the encoder was trained on.",
    "items": {"type": "array", "items": {"type": "number"}},
}
IMAGES = {
    "type": "array",
    "description": "Image files as base64, for encoders of pictures.",
    "items": {"type": "string", "format": "byte"},
}
SEARCH = {
    "type": "object",
    "description": "One of rows, images and ids.",
    "properties": {
        "rows": ROWS,
        "images": IMAGES,
        "ids": {
            "type": "array",
            "description": "Items whose neighbours are asked for.",
            "items": {"type": "integer"},
        },
        "k": {"type": "integer", "default": 10, "minimum": 1},
        "radius": {
            "type": "integer",
            "description": "Only hits within so many bits; `total` counts "
            "them all.",
        },
        "filter": {"type": "string", "example": "label = 3"},
        "rerank": {
            "type": "integer",
            "default": 0,
            "description": "Order the first so many by their embeddings.",
        },
        "payloads": {"type": "boolean", "default": True},
    },
}
ENCODE = {
    "type": "object",
    "properties": {
        "rows": ROWS,
        "images": IMAGES,
        "embeddings": {"type": "boolean", "default": False},
    },
}
ITEMS = {
    "type": "object",
    "required": ["items"],
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "description": "row or image, if you like id and payload.",
                "properties": {
                    "id": {"type": "integer"},
                    "row": {"type": "array", "items": {"type": "number"}},
                    "image": {"type": "string", "format": "byte"},
                    "payload": {"type": "object"},
                },
            },
        }
    },
}


def body(schema: dict[str, Any], binary: bool = False) -> dict[str, Any]:
    """`openapi_extra` of a route that takes such a body."""
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if binary:
        content["application/octet-stream"] = {
            "schema": {
                "type": "string",
                "format": "binary",
                "description": "Rows of float32, little endian; options go "
                "into the URL.",
            }
        }
    return {"requestBody": {"required": True, "content": content}}
