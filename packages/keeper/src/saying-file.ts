import { closeSync, constants, ftruncateSync, openSync, renameSync, writeFileSync, writeSync } from 'node:fs'
import type { SayingFile } from './tend.ts'

/** Begun anew: what the keeper before this one left is stored by now. Not synced: it is for a crash of ours, not of the machine's. */
export function sayingFile(path: string): SayingFile {
  const { O_WRONLY, O_CREAT, O_TRUNC, O_APPEND } = constants
  // To append: otherwise what comes after it was emptied would lie where it would have lain, behind as many zeros.
  const add = O_WRONLY | O_CREAT | O_APPEND
  let file = openSync(path, add | O_TRUNC, 0o600)
  return {
    add: (line) => void writeSync(file, line),
    replace(lines) {
      writeFileSync(`${path}.new`, lines, { mode: 0o600 })
      renameSync(`${path}.new`, path)
      closeSync(file)
      file = openSync(path, add, 0o600)
    },
    empty: () => ftruncateSync(file, 0),
  }
}
