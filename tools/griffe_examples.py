"""What reads docstrings for the API pages knows ``Examples:``; ours say ``Example:``."""

import re
from typing import Any

import griffe


class PluralExamples(griffe.Extension):
    """Rename the section, so that its lines are shown as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called with everything that has been read."""
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = re.sub(
                r"^( *)Example:$", r"\1Examples:", text, flags=re.MULTILINE
            )
