import { type Attack, judge } from './attack.ts'

/** Made by the kernel or in memory: what stands in the place of a path there is no path of the host's. */
const pathless = new Set(['proc', 'sysfs', 'tmpfs', 'devpts', 'devtmpfs', 'mqueue', 'cgroup', 'cgroup2', '9p', 'erofs', 'fuse'])
/** Folders of the system that are seen where they are: their names are those of every Debian. */
const system = /^\/(usr|etc|bin|sbin|lib\w*|opt)(\/|$)/
/** What an engine needs for the program inside, and where that is seen. */
const ofTheEngine = /^\/(run\/cell|run\/\.containerenv|etc\/hostname|opt\/anchorhold\/inside\/[\w.]+)$/

/** Each line names the folder that was mounted by its path on the host's disk, and no mount can take another name. What can be held is that
 *  only the cell's own folders are there. */
export const hostPaths: Attack = {
  name: 'read paths of the host',
  promise: 'Of the paths of the host a process sees those of its own folders and of the programs it runs on, and no other',
  guard: 'each folder is mounted by itself, and nothing above it',
  async *run(on) {
    const under = await on.cell()
    const { lines } = await under.sh('cat /proc/self/mountinfo')
    const { spec } = under
    const own = [
      { at: under.workspace, path: spec.workspace },
      { at: under.home, path: spec.home },
      { at: '/', path: spec.root ?? spec.scratch },
      ...[spec.windows ?? []].flat().map((path) => ({ at: under.cell.place(path), path })),
      ...spec.mounts.map(({ source, target }) => ({ at: target, path: source })),
    ]
    const others = lines.flatMap((line) => {
      const [before = '', after = ''] = line.split(' - ')
      const [root = '', at = ''] = before.split(' ').slice(3)
      const kind = after.split(' ')[0] ?? ''
      const isOwn = own.some((one) => one.at === at && isOf(root, one.path))
      const isKnown =
        root === '/' || pathless.has(kind) || isOwn || (root.endsWith(at) && system.test(at)) || ofTheEngine.test(at)
      return isKnown ? [] : [`${root} at ${at}`]
    })
    const isRead = lines.some((line) => line.includes(` ${under.workspace} `))
    yield judge('nothing but its own folders has a path of the host', [isRead ? 'read' : 'not read', ...others], ['read'])
  },
}

/** Whether this is the path, or below it, as it is seen from the top of some file system that it may lie in. Where the host's own root is a
 *  folder of one, that is above it. */
function isOf(root: string, path: string): boolean {
  if (root.endsWith(path)) return true
  const names = path.split('/').slice(1)
  return names.some((_, above) => {
    const seen = `/${names.slice(above).join('/')}`
    return root === seen || root.startsWith(`${seen}/`)
  })
}
