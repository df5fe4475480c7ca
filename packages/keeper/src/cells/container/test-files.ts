import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { CellDriver, CellFiles } from '../cell.ts'
import { run, trialSpecs } from '../trial.ts'
import { trialFiles } from '../trial-files.ts'

export const testFiles = () => trialFiles(join(import.meta.dirname, '../../../../../dist/inside.cjs'))

/** Never skipped in silence: where the engine is not installed, what is missing is told. One that is and does not start fails. */
export async function describeWhereThere(driver: CellDriver, tests: () => void): Promise<void> {
  const lacks = await driver.missing()
  if (!lacks.some(({ what }) => what.includes('not installed'))) return tests()
  const words = lacks.map(({ what, remedy }) => `${what} (${remedy})`).join('; ')
  console.warn(`The rung "${driver.rung}" is not tested here: ${words}`)
  test.skip(`${driver.rung} is not there: ${words}`, () => {})
}

/** Of Debian's package: musl's loader, which is its library and a program as well. */
const realMusl = namesIn('/lib').find((name) => /^ld-musl-\w+\.so\.1$/.test(name)) ?? null

/** A root that has a shell and nothing else, and is one made with musl where that is installed, and otherwise looks like one. */
function muslRoot(): string | null {
  const busybox = ['/usr/bin/busybox', '/bin/busybox'].find((path) => existsSync(path))
  if (busybox === undefined) return null
  const root = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  chmodSync(root, 0o755)
  for (const folder of ['bin', 'lib', 'etc']) mkdirSync(join(root, folder))
  copyFileSync(busybox, join(root, 'bin/busybox'))
  for (const name of ['sh', 'cat', 'echo', 'ls']) symlinkSync('busybox', join(root, 'bin', name))
  // As images have it: it leads to what is only there once the cell runs.
  symlinkSync('../proc/self/mounts', join(root, 'etc/mtab'))
  if (realMusl === null) writeFileSync(join(root, 'lib/ld-musl-fake.so.1'), '')
  else copyFileSync(join('/lib', realMusl), join(root, 'lib', realMusl))
  if (realMusl !== null && existsSync(muslCompiler)) compileWithMusl(join(root, 'bin/hello'))
  writeFileSync(join(root, 'etc/passwd'), 'alpine:x:500:500::/:/bin/sh\n')
  return root
}

const muslCompiler = '/usr/bin/musl-gcc'
function compileWithMusl(program: string): void {
  const source = '#include <stdio.h>\nint main(void) { return puts("hello from musl") < 0; }\n'
  execFileSync(muslCompiler, ['-x', 'c', '-', '-o', program], { input: source })
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** A user's own image, as a folder: it is shown as it is, and never written to. */
export function foreignRootTests(driver: CellDriver): void {
  const root = muslRoot()
  const what = realMusl === null ? 'that looks as if made with musl' : 'made with musl'
  const name = `${driver.rung}: a root folder ${what} runs its own programs, and ours`
  test.skipIf(root === null)(root === null ? `${name} (not here: busybox is not installed)` : name, async () => {
    await using specs = trialSpecs()
    await using cell = await driver.start(await specs.make({ root }), AbortSignal.timeout(20_000))
    const path = { PATH: '/bin' }
    expect((await run(cell, ['sh', '-c', 'echo $0; cat /etc/passwd; echo > /owned'], { env: path })).output).toMatch(
      /^sh\nroot:.*\nagent:.*\nalpine:/,
    )
    expect((await run(cell, ['ls', '/usr/bin'], { env: path })).code).not.toBe(0)
    expect((await run(cell, ['/opt/anchorhold/inside/node', '-p', '6 * 7'], { env: path })).output).toBe('42\n')
    if (realMusl !== null) {
      expect((await run(cell, [`/lib/${realMusl}`], { env: path })).said).toMatch(/^musl libc /)
      if (existsSync(muslCompiler)) expect((await run(cell, ['/bin/hello'], { env: path })).output).toBe('hello from musl\n')
    }
    expect(readdirSync(root!).sort()).toEqual(['bin', 'etc', 'lib'])
    rmSync(root!, { recursive: true })
  })
}

/** Whoever waits for a container that has ended at once would wait until their time is up, and learn nothing. */
export function endsAtOnceTests(cells: (files: CellFiles) => CellDriver): void {
  const driver = cells(testFiles())
  test(`${driver.rung}: a container whose first program ends at once is refused with what it said`, async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    const inside = join(spec.workspace, 'inside.cjs')
    writeFileSync(inside, `console.error('this is no program'); process.exit(3)`, { mode: 0o644 })
    await expect(cells({ ...testFiles(), inside }).start(await specs.make(), new AbortController().signal)).rejects.toMatchObject(
      {
        code: 'cell_unavailable',
        message: expect.stringMatching(/does not start it: .*this is no program/) as string,
      },
    )
  })
}

/** The program inside has come before anything of the agent's was there, and nobody comes after it. */
export function channelTests(driver: CellDriver): void {
  test(`${driver.rung}: nobody in a cell can call its keeper once the program inside has`, async () => {
    await using specs = trialSpecs()
    await using cell = await driver.start(await specs.make(), AbortSignal.timeout(20_000))
    const client = 'use IO::Socket::UNIX; print IO::Socket::UNIX->new(Peer => "/run/cell/keeper") ? "heard" : "refused: $!"'
    expect((await run(cell, ['perl', '-e', client])).output).toMatch(/^refused: (Connection refused|No such file)/)
  })
}
