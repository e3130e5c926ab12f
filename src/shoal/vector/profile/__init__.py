"""The profiler: where the time of a step goes, and what would be quicker.

::

    recorder   who did what when: spans of the caller and of every worker, on one clock
    profiler   puts recorders in place and takes them away again: ``envs.profile()``
    tracks     what everybody was doing at every moment, and why those who waited did
    result     the shares, the percentiles, the text
    advice     what would be quicker, and by how much
    picture    the timeline as a picture, and as a trace for a browser
"""

from shoal.vector.profile.profiler import Profiler
from shoal.vector.profile.result import Profile

__all__ = ["Profile", "Profiler"]
