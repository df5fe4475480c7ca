/** A program for the guest that has the kernel take up new randomness at once: it opens /dev/urandom and asks for RNDRESEEDCRNG
 *  (random(4)). Every machine is restored from the same memory, and without this they would all deal out the same numbers; no
 *  program that a minimal system has can ask for it. It ends with 0 when it was done. */
export function reseedProgram(arch: MachineArch): Buffer {
  const { elfMachine, code } = programs[arch]
  const body = Buffer.concat([Buffer.from(code.join(''), 'hex'), Buffer.from('/dev/urandom\0')])
  return Buffer.concat([elfHeader(elfMachine), programHeader(headersBytes + body.length), body])
}

export type MachineArch = 'arm64' | 'x64'

const programs = {
  arm64: {
    elfMachine: 183,
    code: [
      ...['600c8092', '61010010', '220080d2', '030080d2', '080780d2', '010000d4'], // openat(AT_FDCWD, path, O_WRONLY, 0)
      ...['e1408ad2', '020080d2', 'a80380d2', '010000d4'], // ioctl(it, RNDRESEEDCRNG, 0)
      ...['a80b80d2', '010000d4'], // exit(its answer)
    ],
  },
  x64: {
    elfMachine: 62,
    code: [
      ...['b802000000', '488d3d22000000', 'be01000000', '31d2', '0f05'], // open(path, O_WRONLY, 0)
      ...['89c7', 'be07520000', '31d2', 'b810000000', '0f05'], // ioctl(it, RNDRESEEDCRNG, 0)
      ...['89c7', 'b83c000000', '0f05'], // exit(its answer)
    ],
  },
} as const satisfies Record<MachineArch, { elfMachine: number; code: readonly string[] }>

/** elf(5): both architectures are little-endian and have 64 bits. */
const headersBytes = 64 + 56
const loadAddress = 0x400000

function elfHeader(machine: number): Buffer {
  const header = Buffer.alloc(64)
  header.write('\x7fELF\x02\x01\x01', 0, 'latin1')
  header.writeUInt16LE(2, 16) // an executable
  header.writeUInt16LE(machine, 18)
  header.writeUInt32LE(1, 20)
  header.writeBigUInt64LE(BigInt(loadAddress + headersBytes), 24)
  header.writeBigUInt64LE(64n, 32) // the program headers follow at once
  header.writeUInt16LE(64, 52)
  header.writeUInt16LE(56, 54)
  header.writeUInt16LE(1, 56)
  return header
}

function programHeader(sizeBytes: number): Buffer {
  const header = Buffer.alloc(56)
  header.writeUInt32LE(1, 0) // to be loaded,
  header.writeUInt32LE(5, 4) // readable and executable
  header.writeBigUInt64LE(BigInt(loadAddress), 16)
  header.writeBigUInt64LE(BigInt(loadAddress), 24)
  header.writeBigUInt64LE(BigInt(sizeBytes), 32)
  header.writeBigUInt64LE(BigInt(sizeBytes), 40)
  header.writeBigUInt64LE(0x10000n, 48)
  return header
}
