import { readdirSync } from 'node:fs'
import { readText } from '../install.ts'

let known: readonly number[] | null = null

/** Descriptors that every child of this process would be handed, in ascending order: those that it was started with. Looked for once,
 *  since Node closes whatever it opens itself when it starts a child. */
export const inheritedFds = (): readonly number[] => (known ??= lookForThem())

function lookForThem(): number[] {
  const closeOnExec = 0o2000000
  return readdirSync('/proc/self/fd')
    .map(Number)
    .sort((a, b) => a - b)
    .filter((fd) => {
      const flags = /^flags:\s+(\d+)$/m.exec(readText(`/proc/self/fdinfo/${fd}`) ?? '')?.[1]
      return fd > 2 && flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0
    })
}
