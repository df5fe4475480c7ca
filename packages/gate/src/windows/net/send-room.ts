import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'

/** Lets the kernel hold up to so many bytes that were written to a connection of a window's and not taken yet; by itself that is 200 kB,
 *  and who writes is woken when three quarters of it are gone. A program that takes a gigabyte a second is done with the last quarter
 *  before it is filled again, and waits. Tries: without it there is only less room. */
export function giveSendRoom(to: Duplex, bytes: number): void {
  // Node has no call for this, nor a public name for the number.
  const { fd, constructor } = (to as { readonly _handle?: { readonly fd?: number } })._handle ?? {}
  // A connection of the network's has as much room as it needs, which the kernel sees to.
  if (fd === undefined || fd < 0 || constructor?.name !== 'Pipe') return
  setSocketOption ??= load()
  // The kernel doubles it, for what it needs around the bytes, and gives no more than net.core.wmem_max.
  setSocketOption(fd, solSocket, soSndbuf, [Math.floor(bytes / 2)], Int32Array.BYTES_PER_ELEMENT)
}

type SetSocketOption = (fd: number, level: number, name: number, value: readonly [number], bytes: number) => number
let setSocketOption: SetSocketOption | undefined
/** https://github.com/torvalds/linux/blob/master/include/uapi/asm-generic/socket.h; the same for x64 and arm64. */
const [solSocket, soSndbuf] = [1, 7]

/** Not before somebody needs it: it takes some milliseconds and megabytes. */
function load(): SetSocketOption {
  try {
    if (process.platform !== 'linux') return () => -1
    const koffi = findKoffi(createRequire(import.meta.url))
    return koffi.load(null).func('int setsockopt(int, int, int, const int *, uint32_t)') as SetSocketOption
  } catch {
    return () => -1
  }
}

/** A gate that serves runs from a folder of its own, where its native part lies beside it. */
function findKoffi(require: NodeJS.Require): typeof import('koffi') {
  try {
    return require(join(import.meta.dirname, 'koffi.node'))
  } catch {
    return require('koffi')
  }
}
