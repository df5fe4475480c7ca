import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { engineRefusal } from '@anchorhold/protocol/rungs'
import { describe, expect, test } from 'vitest'
import { trialLimits } from '../trial.ts'
import { groupsOf, limitsByGroup } from './group-limits.ts'
import { imageLabel, lacksServed, ownLabel, servedRun } from './served-engine.ts'

const plan = {
  name: 'anchorhold-1',
  scratch: '/s/cell',
  image: 'anchorhold/root:1',
  user: { uid: 1234, gid: 1235 },
  binds: [
    { source: '/home/a, "b"/w', target: '/workspace', writable: true },
    { source: '/v', target: '/run/windows', writable: false },
  ],
  seccomp: '/s/cell/seccomp.json',
  rlimits: { nofile: 512, fsize: 1 << 24, core: 1, nproc: 100 },
  memoryBytes: 1 << 30,
  tasksMax: 88,
  cpus: 1.5,
  tmpBytes: 1 << 20,
  command: ['/opt/anchorhold/inside/init'],
} as const
const after = (argv: readonly string[], option: string) =>
  argv.flatMap((word, at) => (word === option ? [argv[at + 1] ?? ''] : []))

test('imageLabel() is the same for every release of an installation, and another for another', () => {
  const label = (inside: string) => imageLabel({ node: '/n', inside })
  expect(label('/a/runtime/1/inside.cjs')).toBe(label('/a/runtime/2/inside.cjs'))
  expect(label('/a/runtime/1/inside.cjs')).not.toBe(label('/b/runtime/1/inside.cjs'))
  expect(label('/a/runtime/1/inside.cjs')).toMatch(/^org\.anchorhold\.image=[0-9a-f]{16}$/)
})

describe.each(['docker', 'podman-rootful'] as const)('servedRun() for %s', (engine) => {
  const argv = servedRun(engine, plan)

  test.each([
    ['--network', 'none'],
    ['--pull', 'never'],
    ['--cap-drop', 'ALL'],
    ['--security-opt', engine === 'docker' ? 'no-new-privileges:true' : 'no-new-privileges'],
    ['--security-opt', 'seccomp=/s/cell/seccomp.json'],
    ['--log-driver', 'none'],
    ['--user', '1234:1235'],
    ['--memory', String(1 << 30)],
    ['--memory-swap', String(1 << 30)],
    ['--pids-limit', '88'],
    ['--cpus', '1.5'],
    ['--ulimit', 'nofile=512:512'],
    ['--tmpfs', '/tmp:rw,nosuid,nodev,exec,size=1048576,mode=1777'],
    ['--label', `${ownLabel}=/s/cell`],
    ['--ipc', 'private'],
  ])('has %s %s', (option, value) => {
    expect(after(argv, option)).toContain(value)
  })

  test('keeps the root and what it mounts read-only but for the workspace, and gives no device, no privilege, no socket', () => {
    expect(argv).toEqual(expect.arrayContaining(['--read-only', '--rm', '--detach']))
    expect(after(argv, '--mount')).toEqual([
      'type=bind,"source=/home/a, ""b""/w",destination=/workspace',
      expect.stringMatching(/^type=bind,source=\/v,destination=\/run\/windows,(readonly|ro=true)$/),
    ])
    expect(argv.join(' ')).not.toMatch(/cap-add|privileged|--device|docker\.sock|podman\.sock|--pid |--userns|--volume/)
  })

  test('ends with the image and the command, so that nothing of either is taken for an option', () => {
    expect(argv.slice(-2)).toEqual(['anchorhold/root:1', '/opt/anchorhold/inside/init'])
  })
})

describe('lacksServed()', () => {
  const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  const socket = join(folder, 'sock')

  test('names the remedy where the daemon does not run', () => {
    const [lack] = lacksServed({ name: 'docker', socket }, () => 'ID=debian\n')
    expect(lack).toMatchObject({
      what: expect.stringMatching(/does not run|not installed/),
      remedy: expect.stringMatching(/docker/),
    })
  })

  test.skipIf(process.getuid?.() === 0)(
    'refuses a socket that this user may not use, and says what joining its group means',
    async () => {
      await using server = createServer()
      await new Promise<void>((resolve) => server.listen({ path: socket, readableAll: false }, resolve))
      // Of somebody else's there is always one: that of the first process.
      const [lack] = lacksServed({ name: 'docker', socket: '/proc/1/root' }, () => null)
      expect(lack?.what).toMatch(/may not use|does not run|not installed/)
      rmSync(folder, { recursive: true, force: true })
    },
  )
})

test('engineRefusal() keeps the keepers of root’s daemon from an engine that would make them root', () => {
  expect(engineRefusal('docker', { root: true })).toMatchObject({ remedy: expect.stringContaining('container_engine: podman') })
  expect(engineRefusal('podman-rootful', { root: true })).not.toBeNull()
  expect(engineRefusal('docker', { root: false })).toBeNull()
  expect(engineRefusal('podman', { root: true })).toBeNull()
})

describe('groupsOf()', () => {
  const reading = (files: Readonly<Record<string, string>>) => (path: string) => files[path] ?? null

  test('reads groups of the first version, with two controllers in one folder', () => {
    const files = {
      '/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes': '1048576',
      '/sys/fs/cgroup/pids/docker/a/pids.max': '88',
      '/sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_quota_us': '50000',
      '/sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_period_us': '100000',
    }
    const seen = groupsOf(1, reading(files), '4:memory:/docker/a\n3:pids:/docker/a\n2:cpu,cpuacct:/docker/a\n0::/docker/a\n')
    expect(seen).toEqual({ memoryBytes: 1_048_576, tasksMax: 88, cpus: 0.5 })
  })

  test('reads groups of the second version', () => {
    const at = '/sys/fs/cgroup/system.slice/docker-a.scope'
    const files = { [`${at}/memory.max`]: '1048576', [`${at}/pids.max`]: 'max', [`${at}/cpu.max`]: '150000 100000' }
    expect(groupsOf(1, reading(files), '0::/system.slice/docker-a.scope\n')).toEqual({
      ...{ memoryBytes: 1_048_576, tasksMax: null, cpus: 1.5 },
    })
  })
})

test('limitsByGroup() tells only what was read back and holds', () => {
  const own = { tasks: 24, whose: 'own' }
  expect(limitsByGroup(trialLimits, own, null)).toEqual({})
  const wide = { memoryBytes: trialLimits.memoryBytes * 2, tasksMax: 10_000, cpus: 64 }
  expect(limitsByGroup(trialLimits, own, wide)).toEqual({})
  const held = { memoryBytes: trialLimits.memoryBytes, tasksMax: trialLimits.processesMax + 24, cpus: 1 }
  expect(Object.keys(limitsByGroup(trialLimits, own, held)).sort()).toEqual(['cpu', 'memory', 'processes'])
})
