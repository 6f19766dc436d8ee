"""The GPUs that a program can be told it runs on, with the numbers their drivers report.

Sources: CUDA C++ programming guide, "Compute Capabilities" (limits per capability), and the
vendors' data sheets (SM counts, clocks, memory).
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
GIB = 1024**3


@dataclass(frozen=True)
class Device:
    """One GPU. Shared memory in bytes, clocks in kHz, bus width in bits, memory in bytes."""

    cc: int
    name: str
    sms: int
    shared_per_block_optin: int
    shared_per_sm: int
    sm_clock: int
    mem_clock: int
    bus_width: int
    memory: int
    l2: int
    threads_per_sm: int = 2048
    registers: int = 65536
    warp_size: int = 32
    shared_per_block: int = 48 * KIB
    max_threads: int = 1024
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    tensor_memory_columns: int = 0

    @property
    def capability(self) -> tuple[int, int]:
        """(major, minor)"""
        return divmod(self.cc, 10)

    def triton_properties(self) -> dict[str, int]:
        """What `driver.utils.get_device_properties` answers."""
        return {
            "max_shared_mem": self.shared_per_block_optin,
            "max_num_regs": self.registers,
            "multiprocessor_count": self.sms,
            "warpSize": self.warp_size,
            "sm_clock_rate": self.sm_clock,
            "mem_clock_rate": self.mem_clock,
            "mem_bus_width": self.bus_width,
        }


DEVICES: dict[int, Device] = {
    d.cc: d
    for d in (
        Device(75, "Tesla T4", 40, 64 * KIB, 64 * KIB, 1590000, 5001000, 256, 15 * GIB,
               4 * KIB * KIB, threads_per_sm=1024),
        Device(80, "NVIDIA A100-SXM4-80GB", 108, 163 * KIB, 164 * KIB, 1410000, 1593000, 5120,
               85_094_825_984, 40 * KIB * KIB),
        Device(86, "NVIDIA A10", 72, 99 * KIB, 100 * KIB, 1695000, 6251000, 384, 23_696_375_808,
               6 * KIB * KIB, threads_per_sm=1536),
        Device(89, "NVIDIA L40S", 142, 99 * KIB, 100 * KIB, 2520000, 9001000, 384, 47_810_936_832,
               96 * KIB * KIB, threads_per_sm=1536),
        Device(90, "NVIDIA H100 80GB HBM3", 132, 227 * KIB, 228 * KIB, 1980000, 2619000, 5120,
               85_029_158_912, 50 * KIB * KIB),
        Device(100, "NVIDIA B200", 148, 227 * KIB, 228 * KIB, 1965000, 3996000, 7680,
               191_514_083_328, 126 * KIB * KIB, tensor_memory_columns=512),
        Device(103, "NVIDIA B300", 148, 227 * KIB, 228 * KIB, 2032000, 3996000, 7680,
               287_428_771_840, 126 * KIB * KIB, tensor_memory_columns=512),
        Device(120, "NVIDIA GeForce RTX 5090", 170, 99 * KIB, 100 * KIB, 2407000, 14001000, 512,
               33_661_911_040, 96 * KIB * KIB, threads_per_sm=1536),
    )
}  # fmt: skip


def device_for(cc: int) -> Device:
    """The device of a compute capability such as 90. Raises ValueError for an unknown one."""
    if cc not in DEVICES:
        raise ValueError(f"no device with compute capability {cc}; known: {sorted(DEVICES)}")
    return DEVICES[cc]
