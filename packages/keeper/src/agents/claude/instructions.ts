import type { Cell } from '../../cells/cell.ts'

const names = ['CLAUDE.md', '.claude/CLAUDE.md', 'CLAUDE.local.md', 'AGENTS.md'] as const
const bytesMax = 64 * 1024

/** The instructions that a workspace carries for agents. They are read inside the cell, where a link leads nowhere
 *  that the agent could not go itself. */
export async function workspaceInstructions(cell: Cell, workspace: string): Promise<string> {
  const found: string[] = []
  const seen = new Set<string>()
  // One process for all: each file is preceded by a line with its name and followed by a NUL.
  const script = `for f in ${names.map((name) => `'${name}'`).join(' ')}; do if [ -f "$f" ]; then printf '%s\\n' "$f"; head -c ${bytesMax} "$f"; printf '\\0'; fi; done`
  const process = cell.spawn(['/bin/sh', '-c', script], { env: { PATH: '/usr/bin:/bin' }, cwd: workspace })
  process.stdin.end()
  process.stderr.resume()
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of process.stdout as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size <= names.length * (bytesMax + 100)) chunks.push(chunk)
  }
  await process.exited
  for (const part of Buffer.concat(chunks).toString('utf8').split('\0')) {
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
