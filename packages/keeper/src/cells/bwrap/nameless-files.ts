import { ownerMark } from '@anchorhold/link/owner'
import { randomBytes } from 'node:crypto'
import { openSync, unlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What every cell is given is the same, and is written once in a process. Nobody can change it: no name leads there. */
const kept = new Map<string, number>()

/** Opens a file without a name that holds this, from its beginning. */
export function openNameless(content: string | Buffer): number {
  if (content.length === 0) return openSync('/dev/null', 'r')
  const key = Buffer.from(content).toString('latin1')
  const file = kept.get(key) ?? makeNameless(content)
  kept.set(key, file)
  // Whoever reads it moves no place but their own.
  return openSync(`/proc/self/fd/${file}`, 'r')
}

function makeNameless(content: string | Buffer): number {
  const path = join(tmpdir(), `ah-file-${ownerMark()}-${randomBytes(8).toString('hex')}`)
  writeFileSync(path, content, { flag: 'wx', mode: 0o600 })
  try {
    return openSync(path, 'r')
  } finally {
    unlinkSync(path)
  }
}
