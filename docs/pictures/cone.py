"""A cone beam from above and from the side. From above: the source on its circle, a slice with x
along its columns and y along its rows, and the detector's columns. From the side: the slices of the
volume along z, the axis of rotation, and the detector's rows."""

from korisk.operators import ConeBeam

figure = ConeBeam(64).plot().figure
