import { userInfo } from 'node:os'
import { join } from 'node:path'
import type { CellSpec, Lack } from '../cell.ts'
import { isExecutable, readText } from '../install.ts'
import { isPlaceForMount } from '../layout.ts'
import { seccompArch } from '../seccomp.ts'
import type { Users } from './engine.ts'
import { lacksElevated } from './elevated.ts'
import { ownerOf } from './program.ts'

/** Why no engine gives such a cell. */
export function refusals(spec: CellSpec): Lack[] {
  const misplaced = spec.mounts.find((mount) => !isPlaceForMount(mount))
  return [
    ...(seccompArch(process.arch) === null
      ? [{ what: `there is no seccomp filter for "${process.arch}"`, remedy: 'Use x86-64 or arm64' }]
      : []),
    ...(ownerOf(spec).uid === 0
      ? [{ what: 'a cell started by root is no boundary', remedy: 'Give it a user of its own (runAs)' }]
      : []),
    ...(misplaced === undefined
      ? []
      : [{ what: `nothing may be mounted at "${misplaced.target}"`, remedy: 'Mount it under /opt' }]),
    ...(spec.network === 'host'
      ? [{ what: "the host's network cannot be given to this rung", remedy: 'Use --rung bwrap for it' }]
      : []),
  ]
}

/** Why an engine without root does not give it. */
export function refusalsRootless(spec: CellSpec): Lack[] {
  const needsRange = (['sudo', 'nested'] as const).filter((extra) => spec.extras[extra])
  return [
    ...(spec.root !== null && !/^[\w./@+-]+$/.test(spec.root)
      ? [{ what: `a root folder cannot lie at "${spec.root}"`, remedy: 'Use a path of letters, digits and ./@+-_' }]
      : []),
    ...(needsRange.length > 0 && usersOf(spec) !== 'range'
      ? [
          {
            what: `${needsRange.join(' and ')} inside needs a range of users of your own in /etc/subuid and /etc/subgid`,
            remedy:
              'Run the daemon as an ordinary user, after: sudo usermod --add-subuids 200000-265535 --add-subgids 200000-265535 $USER',
          },
        ]
      : []),
    ...lacksElevated(spec),
    ...(spec.extras.gpu && readText('/etc/cdi/nvidia.yaml') === null && readText('/var/run/cdi/nvidia.yaml') === null
      ? [
          {
            what: 'no graphics processor is described to engines',
            remedy: 'Install the NVIDIA container toolkit and run: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml',
          },
        ]
      : []),
  ]
}

/** Whose range of users a cell's may be: newuidmap lets nobody else's be taken. */
export function usersOf({ runAs }: CellSpec): Users {
  if (runAs !== null || find('newuidmap') === null || find('newgidmap') === null) return 'single'
  let names: readonly string[] = [String(process.getuid?.())]
  try {
    names = [...names, userInfo().username]
  } catch {
    // A session's user is in no database.
  }
  const hasRange = (file: string) =>
    (readText(file) ?? '').split('\n').some((line) => {
      const [owner = '', , count] = line.split(':')
      return names.includes(owner) && Number(count) >= rangeMin
    })
  return hasRange('/etc/subuid') && hasRange('/etc/subgid') ? 'range' : 'single'
}
const rangeMin = 65_535

/** Debian has these in PATH; others keep some beside Podman. */
export function find(program: string): string | null {
  const folders = ['/usr/bin', '/usr/sbin', '/bin', '/sbin', '/usr/libexec/podman', '/usr/lib/podman']
  return folders.map((folder) => join(folder, program)).find(isExecutable) ?? null
}
