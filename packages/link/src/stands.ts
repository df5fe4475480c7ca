import { closeSync, writeFileSync } from 'node:fs'

/** Tells whoever started this process, at its third descriptor, that it stands. Nobody may be there any more: a process
 *  that was started goes on all the same. */
export function sayReady(): void {
  try {
    writeFileSync(3, 'ready')
    closeSync(3)
  } catch (error) {
    if (!['EPIPE', 'EBADF'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
