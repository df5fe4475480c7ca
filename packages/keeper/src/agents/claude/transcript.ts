import type { Cell } from '../../cells/cell.ts'

// Only a plain file is read: anything else could keep a reader waiting.
const script = `for f in "$1"/.claude/projects/*/"$2".jsonl; do [ -f "$f" ] && grep -q '"type":"user"' "$f" && exit 0; done; exit 1`

/** Whether the agent's home holds anything of the conversation. An agent that was ended before it wrote the first of it
 *  down cannot resume it, and would refuse to start. Read inside the cell, where a link leads nowhere that the agent
 *  could not go itself. */
export async function hasTranscript(cell: Cell, home: string, conversation: string): Promise<boolean> {
  const process = cell.spawn(['/bin/sh', '-c', script, 'sh', home, conversation], { env: { PATH: '/usr/bin:/bin' }, cwd: home })
  process.stdin.end()
  process.stdout.resume()
  process.stderr.resume()
  return (await process.exited) === 0
}
