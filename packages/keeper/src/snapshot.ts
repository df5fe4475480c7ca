import type { Cell } from './cells/cell.ts'

/** Gives a copy without history a first commit, so that what the agent changes can be seen. Done in the cell: what the filter hides
 *  is hidden from the commit, too, and no git of the host's reads what the folder holds. */
export async function beginHistory(cell: Cell, workspace: string, home: string): Promise<void> {
  const who = '-c user.name=Anchorhold -c user.email=anchorhold@localhost'
  const script = `[ -e .git ] || { git init -q . && git add -A && git ${who} commit -q --allow-empty -m 'Snapshot'; }`
  const process = cell.spawn(['/bin/sh', '-c', script], { env: { PATH: '/usr/bin:/bin', HOME: home }, cwd: workspace })
  process.stdin.end()
  process.stdout.resume()
  process.stderr.resume()
  // Where there is no git in the cell, there is no history either.
  await process.exited
}
