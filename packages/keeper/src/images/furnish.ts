import { lstatSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runTool } from './tools.ts'

/** Makes a root fit for cells: every mount point is there, every session's user can read it, and nothing in it gives more rights
 *  than its reader has. An engine or a machine mounts it read-only and could add none of this. */
export async function furnish(root: string): Promise<void> {
  // First what an archive may have brought: device nodes, pipes and sockets.
  await runTool('find', [root, '-xdev', '(', ...unwanted, ')', '-delete'])
  // Set-user-id bits go; what is closed to others could not be read by a session's user, nor some of it by its own owner.
  await runTool('chmod', ['-R', 'u+rwX,go+rX,a-s', root])
  for (const path of folders) makeFolder(root, path)
  for (const [path, content] of Object.entries(files)) {
    rmSync(join(root, path), { recursive: true, force: true })
    writeFileSync(join(root, path), content, { mode: 0o644 })
  }
  addUsers(root)
  rmSync(join(root, 'etc/mtab'), { recursive: true, force: true })
  symlinkSync('../proc/self/mounts', join(root, 'etc/mtab'))
}

const unwanted = ['b', 'c', 'p', 's'].flatMap((type, index) => [...(index === 0 ? [] : ['-o']), '-type', type])

const folders = [
  ...['proc', 'sys', 'dev', 'tmp', 'var/tmp', 'etc', 'root', 'nix'],
  ...['workspace', 'home/agent', 'run/windows', 'run/cell', 'opt/anchorhold'],
]

/** What every cell has of its own. */
const files = {
  'etc/hosts': '127.0.0.1 localhost cell\n::1 localhost cell\n',
  'etc/hostname': 'cell\n',
  'etc/resolv.conf': '',
} as const satisfies Record<string, string>

/** A cell's user is 1000. What an image calls that user already is left as it is. */
const users = {
  'etc/passwd': { root: 'root:x:0:0:root:/root:/bin/sh', agent: 'agent:x:1000:1000:agent:/home/agent:/bin/sh' },
  'etc/group': { root: 'root:x:0:', agent: 'agent:x:1000:' },
} as const

function addUsers(root: string): void {
  for (const [path, lines] of Object.entries(users)) {
    const file = join(root, path)
    const isFile = lstatSync(file, { throwIfNoEntry: false })?.isFile() === true
    const old = isFile
      ? readFileSync(file, 'utf8')
          .split('\n')
          .filter((line) => line !== '')
      : [lines.root]
    const isThere = old.some((line) => line.split(':')[2] === '1000')
    rmSync(file, { recursive: true, force: true })
    writeFileSync(file, `${[...old, ...(isThere ? [] : [lines.agent])].join('\n')}\n`, { mode: 0o644 })
  }
}

/** Of real folders all the way: a link in a root may point anywhere on the host. */
function makeFolder(root: string, path: string): void {
  let at = root
  for (const part of path.split('/')) {
    at = join(at, part)
    if (lstatSync(at, { throwIfNoEntry: false })?.isDirectory()) continue
    rmSync(at, { force: true })
    mkdirSync(at, { mode: 0o755 })
  }
}
