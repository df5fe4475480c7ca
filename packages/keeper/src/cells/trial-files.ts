import { chmodSync, constants, copyFileSync, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ownerMark } from '@anchorhold/link/owner'
import type { CellFiles } from './cell.ts'

/** Handed on to processes of the trial's own, which may be killed and must not leave a copy behind. */
const variable = 'ANCHORHOLD_TRIAL_FILES'

/** Node and the program inside where a trial's user can reach them. Root's clone may lie where nobody else can go: then it is a copy,
 *  which goes with this process. */
export function trialFiles(inside: string): CellFiles {
  const own = { node: process.execPath, inside }
  if (process.getuid?.() !== 0 || Object.values(own).every(isForAll)) return own
  const known = process.env[variable]
  const folder = known !== undefined && existsSync(known) ? known : copied(own)
  return { node: join(folder, 'node'), inside: join(folder, 'inside.cjs') }
}

function copied({ node, inside }: { readonly node: string; readonly inside: string }): string {
  const folder = mkdtempSync(join(tmpdir(), `ah-trial-files-${ownerMark()}-`))
  chmodSync(folder, 0o755)
  copyFileSync(node, join(folder, 'node'), constants.COPYFILE_FICLONE)
  chmodSync(join(folder, 'node'), 0o755)
  if (inside !== '') {
    copyFileSync(inside, join(folder, 'inside.cjs'))
    chmodSync(join(folder, 'inside.cjs'), 0o644)
  }
  process.env[variable] = folder
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Whether anybody may read it, and pass through every folder above it. */
function isForAll(path: string): boolean {
  if (!existsSync(path)) return true
  if ((statSync(path).mode & 0o004) === 0) return false
  for (let above = dirname(path); above !== dirname(above); above = dirname(above))
    if ((statSync(above).mode & 0o001) === 0) return false
  return true
}
