"""Print every frame that passes a device, in hexadecimal, one per line; runs on its own inside a node.

Arguments: the device. Says `ready` first; ends when it is killed.
"""

import socket
import sys

with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as device:
    device.bind((sys.argv[1], 0))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        sys.stdout.write(device.recv(65536)[:128].hex() + "\n")
        sys.stdout.flush()
