"""What a world shows, as part of a history: a text, or pictures with a mark in the text for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.vector.errors import ConfigurationError

IMAGE_MARK = "<images>"


def entry_of(shown: Any) -> dict[str, Any]:
    """The entry of a history in which this is to be seen."""
    if isinstance(shown, str):
        return {"state": shown}
    pictures = [picture_of(one) for one in (shown if isinstance(shown, list | tuple) else [shown])]
    return {"state": IMAGE_MARK * len(pictures), "images": pictures}


def picture_of(shown: Any) -> Any:
    """A picture as one of Pillow's."""
    if hasattr(shown, "convert"):
        return shown
    try:
        from PIL import Image
    except ImportError as error:
        raise ConfigurationError("pictures need Pillow: pip install pillow") from error
    array = np.asarray(shown)
    if array.ndim not in (2, 3) or array.dtype.hasobject:
        raise ConfigurationError(f"a world must show a text or pictures, this is an array of shape {array.shape}")
    return Image.fromarray(array.astype(np.uint8, copy=False))
