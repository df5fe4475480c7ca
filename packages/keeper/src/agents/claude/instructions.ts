import { slownessOf } from '@anchorhold/protocol/rungs'
import type { Cell } from '../../cells/cell.ts'
import { outputOf } from '../../cells/output-of.ts'
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'

const names = ['CLAUDE.md', '.claude/CLAUDE.md', 'CLAUDE.local.md', 'AGENTS.md'] as const
const entries = new Set(names.map((name) => name.split('/')[0]!))
const bytesMax = 64 * 1024
const readMsMax = 20_000

/** The instructions that a workspace carries for agents. They are read inside the cell, where a link leads nowhere
 *  that the agent could not go itself. */
export async function workspaceInstructions(cell: Cell, hostPath: string): Promise<string> {
  // A process of the cell's is what a first prompt would wait for.
  if (await carriesNone(hostPath)) return ''
  const workspace = cell.place(hostPath)
  const found: string[] = []
  const seen = new Set<string>()
  // One process for all: each file is preceded by a line with its name and followed by a NUL.
  const script = `for f in ${names.map((name) => `'${name}'`).join(' ')}; do if [ -f "$f" ]; then printf '%s\\n' "$f"; head -c ${bytesMax} "$f"; printf '\\0'; fi; done`
  const process = cell.spawn(['/bin/sh', '-c', script], { env: { PATH: '/usr/bin:/bin' }, cwd: workspace })
  process.stdin.end()
  // Whatever gives no answer in time, or a longer one than there can be, has no instructions.
  const withinMs = readMsMax * slownessOf(cell.limits)
  const { text: said } = await outputOf(process, { bytesMax: names.length * (bytesMax + 100), withinMs }).catch(() => ({
    text: '',
  }))
  for (const part of said.split('\0')) {
    const end = part.indexOf('\n')
    if (end === -1) continue
    const text = part.slice(end + 1).trim()
    // AGENTS.md is often a link to CLAUDE.md, or the other way round.
    if (text === '' || seen.has(text)) continue
    seen.add(text)
    found.push(`Contents of ${workspace}/${part.slice(0, end)} (instructions of this workspace):\n\n${text}`)
  }
  return found.join('\n\n')
}

/** Whether nothing is there that could be one of them. What it is, and where it leads, is not looked at out here. */
async function carriesNone(hostPath: string): Promise<boolean> {
  const isMissing = (name: string) =>
    lstat(join(hostPath, name)).then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === 'ENOENT',
    )
  return (await Promise.all([...entries].map(isMissing))).every(Boolean)
}
