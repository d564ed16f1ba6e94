r"""One projection and one backprojection on a CUDA card, for a profiler to look at.

    ncu --clock-control none -k regex:"_project|_backproject" --metrics \
        l1tex__throughput.avg.pct_of_peak_sustained_elapsed,\
        lts__throughput.avg.pct_of_peak_sustained_elapsed,\
        dram__throughput.avg.pct_of_peak_sustained_elapsed,\
        l1tex__t_sector_hit_rate.pct,smsp__issue_active.avg.pct_of_peak_sustained_active \
        python -m benchmarks.operators.profile_kernels
"""

import torch

from korisk.operators import ParallelBeam, Projector


def main() -> None:
    """512 images of 512 x 512 pixels, 180 views."""
    operator = Projector(ParallelBeam(512, views=180, bins=512), device="cuda")
    images = torch.rand(512, 512, 512, device="cuda")
    operator.adjoint(operator(images))
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
