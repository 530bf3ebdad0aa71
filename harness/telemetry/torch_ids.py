"""What torch knows of a GPU that leads to the same GPU in NVML or amdsmi, whose order and numbering are their own."""

from ...shapes.device import Device


def pci_address(device: Device) -> str | None:
    """PCI address of a GPU as "0000:c1:00.0"; None when this torch does not tell."""
    import torch

    properties = torch.cuda.get_device_properties(device.index)
    try:
        domain, bus, slot = (getattr(properties, f"pci_{part}_id") for part in ("domain", "bus", "device"))
    except AttributeError:  # older versions of torch
        return None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.0"


def holds_context(device: Device) -> bool:
    """Tell whether this process has a context on the GPU, and therefore an entry in the driver's process list."""
    import torch

    if not torch.cuda.is_initialized():
        return False
    ask = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    return bool(ask(device.index)) if ask else True
