import type { CellSpec } from './cell.ts'

/** Where a cell finds its own things, whatever the session. */
export const inside = { workspace: '/workspace', home: '/home/agent', windows: '/run/windows', caches: '/run/caches' } as const

/** What is made up rather than taken from the host. */
export const generatedFiles = {
  '/etc/passwd': [
    'root:x:0:0:root:/nonexistent:/usr/sbin/nologin',
    'agent:x:1000:1000:agent:/home/agent:/bin/bash',
    'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin',
    '',
  ].join('\n'),
  '/etc/group': 'root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n',
  '/etc/hosts': '127.0.0.1 localhost cell\n::1 localhost cell\n',
  '/etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n',
  '/etc/resolv.conf': '',
} as const satisfies Record<string, string>

/** What a cell with the host's network takes from the host instead: without them no name is found. */
export const hostNetworkFiles = ['/etc/hosts', '/etc/nsswitch.conf', '/etc/resolv.conf'] as const

/** Where a mount may show up; elsewhere it would hide a part of the cell's own root. */
export function isPlaceForMount({ source, target }: CellSpec['mounts'][number]): boolean {
  if (!/^(\/[^/\0]+)+$/.test(target) || target.split('/').some((part) => part === '.' || part === '..')) return false
  const [, top = ''] = target.split('/')
  if (['opt', 'nix'].includes(top)) return true
  if (top === 'run') return target !== '/run' && ![inside.windows, inside.caches].some((own) => isWithin(target, own))
  return target === source && !taken.includes(top) && !isWithin(target, inside.home) && !isWithin(inside.home, target)
}

const taken = ['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32', 'etc', 'proc', 'sys', 'dev', 'tmp', 'var', 'workspace']

/** Whether `path` is `folder` or lies in it. */
export const isWithin = (path: string, folder: string) => path === folder || path.startsWith(`${folder}/`)

/** Where a mounted host path is seen from inside. */
export function placeInside(spec: CellSpec, hostPath: string): string {
  const places = [
    { source: spec.workspace, target: inside.workspace },
    { source: spec.home, target: inside.home },
    ...(spec.windows === null ? [] : [{ source: spec.windows, target: inside.windows }]),
    ...(spec.caches === undefined ? [] : [{ source: spec.caches, target: inside.caches }]),
    ...spec.mounts,
  ]
  // One folder may lie in another: the innermost is where the path is seen.
  const [place] = places.filter(({ source }) => isWithin(hostPath, source)).sort((a, b) => b.source.length - a.source.length)
  if (place === undefined) throw new Error(`"${hostPath}" is not mounted in the cell "${spec.name}"`)
  return place.target + hostPath.slice(place.source.length)
}
