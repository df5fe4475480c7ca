import type { Rung } from '@anchorhold/protocol/rungs'
import { mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { giveTo, keepersOf } from '../e2e/host.ts'
import { command, isRoot, makeBase, type Ran, someone, start } from '../e2e/installation.ts'

const base = makeBase()
afterAll(() => rmSync(base, { recursive: true, force: true }))

/** The programs that a rung stands on, and what mends their absence. */
const backends = [
  { rung: 'bwrap', programs: ['bwrap'], lack: 'bubblewrap is not installed', remedy: 'install -y bubblewrap' },
  { rung: 'container', programs: ['podman'], lack: 'Podman is not installed', remedy: 'install -y podman' },
  { rung: 'gvisor', programs: ['runsc'], lack: 'runsc is not installed', remedy: 'install -y runsc' },
  {
    rung: 'microvm',
    programs: ['qemu-system-x86_64', 'qemu-system-aarch64'],
    lack: 'is not installed',
    remedy: 'install -y --no-install-recommends qemu-system',
  },
] as const satisfies readonly {
  readonly rung: Rung
  readonly programs: readonly string[]
  readonly lack: string
  readonly remedy: string
}[]

/** In a mount namespace of its own, where something that cannot be run lies over the programs. What is installed nowhere is hidden
 *  already. */
const hiding = 'for each in $1; do [ ! -e "$each" ] || mount --bind /dev/null "$each" || exit 99; done; shift; exec "$@"'

describe.each(backends)('with the backend of $rung gone', ({ rung, programs, lack, remedy }) => {
  test.skipIf(!isRoot)('a session is refused with the remedy, and nothing runs (needs root to hide it)', async () => {
    const state = join(base, rung)
    // A machine is asked for its emulator only where there is an image.
    if (rung === 'microvm') {
      mkdirSync(join(state, 'images/base-000000000000/root'), { recursive: true })
      symlinkSync('base-000000000000', join(state, 'images/base'))
    }
    const paths = programs.flatMap((name) => [`/usr/bin/${name}`, `/usr/sbin/${name}`]).join(' ')
    const hidden = (...args: readonly string[]): Promise<Ran> =>
      start('unshare', ['-m', 'sh', '-c', hiding, 'sh', paths, process.execPath, command, '--state', state, ...args]).ended
    const refusal = { code: 7, err: expect.stringMatching(new RegExp(`${lack}[^]*${remedy}`)) as string }
    const workspace = join(base, `workspace-${rung}`)
    mkdirSync(workspace)
    giveTo(workspace, someone)
    try {
      const up = await hidden('up', '--detach', '--port', '0')
      expect(up.code).toBe(0)
      if (rung === 'bwrap') expect(up.out).toMatch(new RegExp(`sessions are refused[^]*${remedy}`))
      // The other rungs are as they were, and none of them is taken in its place.
      expect(await hidden('run', '--rung', rung, 'create hello.txt saying hi')).toMatchObject(refusal)
      expect(await hidden('ls')).toMatchObject({ out: expect.stringContaining('No sessions yet') as string })
      expect(await hidden('sandbox', '--rung', rung, '--workspace', workspace, '--', 'touch', 'made')).toMatchObject(refusal)
      expect(readdirSync(workspace)).toEqual([])
      expect(await hidden('doctor', '--fresh')).toMatchObject({
        out: expect.stringMatching(new RegExp(`✗ ${rung}[^]*${lack}`)) as string,
      })
      expect(keepersOf(state)).toEqual([])
      expect(readdirSync(join(state, 'sessions'))).toEqual([])
    } finally {
      await hidden('down', '--all')
    }
  })
})

test.skipIf(!isRoot).each(['docker', 'podman-rootful'])(
  'root’s daemon hands no keeper an engine of root’s: with container_engine: %s sessions are refused with the remedy',
  async (engine) => {
    const state = join(base, engine)
    mkdirSync(join(state, 'config'), { recursive: true })
    writeFileSync(join(state, 'config/config.yaml'), `container_engine: ${engine}\n`)
    const cli = (...args: readonly string[]) => start(process.execPath, [command, '--state', state, ...args]).ended
    try {
      expect(await cli('up', '--detach', '--port', '0')).toMatchObject({ code: 0 })
      const refusal = { code: 7, err: expect.stringMatching(/would be root as well[^]*container_engine: podman/) as string }
      expect(await cli('run', '--rung', 'container', 'create hello.txt saying hi')).toMatchObject(refusal)
      expect(await cli('ls')).toMatchObject({ out: expect.stringContaining('No sessions yet') as string })
      expect(await cli('doctor')).toMatchObject({ out: expect.stringMatching(/✗ container\n.*would be root/) as string })
      expect(keepersOf(state)).toEqual([])
    } finally {
      await cli('down', '--all')
    }
  },
)

test('a session without a limit that the policy requires is refused with the remedy, and no agent starts', async () => {
  const state = join(base, 'limits')
  mkdirSync(join(state, 'config'), { recursive: true })
  writeFileSync(join(state, 'config/config.yaml'), 'require_limits: [tmp]\n')
  const cli = (...args: readonly string[]) => start(process.execPath, [command, '--state', state, ...args]).ended
  try {
    expect(await cli('up', '--detach', '--port', '0')).toMatchObject({ code: 0 })
    const { code, out } = await cli('run', '--rung', 'none', 'create hello.txt saying hi')
    expect([code, out]).toEqual([7, expect.stringMatching(/requires are not enforced here: tmp[^]*Choose another rung/)])
    expect(out).not.toContain('hello.txt.')
  } finally {
    await cli('down', '--all')
  }
})

test.each([
  [['--rung', 'microvm'], 'anchorhold image build --variant base'],
  [['--rung', 'container', '--image', 'absent'], 'anchorhold image add absent --from FILE.tar'],
])('an image that is not there is refused with the remedy, and nothing runs: %j', async (flags, remedy) => {
  const state = join(base, flags.join(''))
  const cli = (...args: readonly string[]) => start(process.execPath, [command, '--state', state, ...args]).ended
  const refusal = { code: 7, err: expect.stringMatching(new RegExp(`there is no image[^]*${remedy}`)) as string }
  try {
    expect(await cli('up', '--detach', '--port', '0')).toMatchObject({ code: 0 })
    expect(await cli('run', ...flags, 'create hello.txt saying hi')).toMatchObject(refusal)
    expect(await cli('ls')).toMatchObject({ out: expect.stringContaining('No sessions yet') as string })
    expect(keepersOf(state)).toEqual([])
  } finally {
    await cli('down', '--all')
  }
})
