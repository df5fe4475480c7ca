import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { cellContract } from '../contract.ts'
import { run, trialSpecs } from '../trial.ts'
import { seatbeltDriver } from './seatbelt.ts'

const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
chmodSync(folder, 0o755)
afterAll(() => rmSync(folder, { recursive: true }))

function program(name: string, script: string): string {
  const path = join(folder, name)
  writeFileSync(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  chmodSync(path, 0o755)
  return path
}

/** Stands in for sandbox-exec where there is none: it takes the same arguments, and keeps the cell from the one folder whose being
 *  kept from it the driver tries out. It says nothing about what a profile does. */
const standIn = program(
  'sandbox-exec',
  `[ "$1" = -f ] && [ -r "$2" ] && [ "$3" = -- ] || exit 64
outside=$(dirname "$2")/outside
shift 3
exec unshare --user --map-root-user --mount sh -c 'mount -t tmpfs -o ro none "$0" && exec "$@"' "$outside" "$@"`,
)
const untested = 'it is the profile that does it, and this is not macOS'
const host = 'this rung sees the host as it is'

if (process.platform === 'linux') {
  cellContract(seatbeltDriver({ platform: 'darwin', sandboxExec: standIn }), {
    'gives a process exactly the environment and folder that were asked for': 'it has a TMPDIR of its own in it',
    'sees what covers a file and not the file': untested,
    'keeps covered what lies in a folder that is renamed': untested,
    'makes nothing outside where a link is in the way of a cover': untested,
    'finds in its caches what a cell before it left there, and another cell does not': 'it has none',
    'runs nothing out of its caches': 'it has none',
    'cannot write outside its folders': untested,
    'has scratch space that anyone inside may write to': host,
    'cannot make a file among the devices': untested,
    'has no network but its own loopback': untested,
    'sees extra mounts at their target': host,
  })
}

describe('seatbeltDriver()', () => {
  const driver = (sandboxExec: string) => seatbeltDriver({ platform: 'darwin', sandboxExec })
  const soon = () => AbortSignal.timeout(10_000)

  test('says elsewhere that it is for macOS, and what is the same rung there', async () => {
    const elsewhere = seatbeltDriver({ platform: 'linux' })
    expect(await elsewhere.missing()).toMatchObject([
      { what: expect.stringContaining('macOS'), remedy: expect.stringContaining('bwrap') },
    ])
    await using specs = trialSpecs()
    await expect(elsewhere.start(await specs.make(), soon())).rejects.toMatchObject({ code: 'cell_unavailable' })
  })

  test('refuses a cell whose profile takes no effect', async () => {
    const blind = program('blind', 'shift 3; exec "$@"')
    await using specs = trialSpecs()
    await expect(driver(blind).start(await specs.make(), soon())).rejects.toThrow('not held as it should be')
  })

  test('tells what sandbox-exec says of a profile that it does not understand', async () => {
    const pedantic = program('pedantic', 'echo "line 3: unbound variable" >&2; exit 65')
    await using specs = trialSpecs()
    await expect(driver(pedantic).start(await specs.make(), soon())).rejects.toThrow('unbound variable')
  })

  test('hands the profile over as a file that the cell cannot change, with what is the same left readable', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    for (const name of ['same', 'other', 'by']) writeFileSync(join(spec.workspace, name), name === 'other' ? 'secret' : 'same')
    const covers = ['same', 'other'].map((name) => ({ path: join(spec.workspace, name), by: join(spec.workspace, 'by') }))
    await using cell = await driver(standIn).start({ ...spec, covers }, soon())
    const profile = readFileSync(join(spec.scratch, 'profile.sb'), 'utf8')
    const [, hidden = ''] = /\(deny file-read\*\n([^]*?)\)\n\(/.exec(profile) ?? []
    expect(hidden).toContain('[oO][tT][hH][eE][rR]')
    expect(hidden).not.toContain('[sS][aA][mM][eE]')
    expect((await run(cell, ['sh', '-c', 'echo "$TMPDIR"'])).output.trim()).toBe(join(spec.scratch, 'tmp'))
    expect(readdirSync(join(spec.scratch, 'tmp'))).toEqual([])
  })

  test('tells of limits only what was read back, and which it has not', async () => {
    await using specs = trialSpecs()
    await using cell = await driver(standIn).start(await specs.make(), soon())
    const of = (name: string) => cell.limits.find((limit) => limit.name === name)
    expect(of('file_size')).toMatchObject({ enforcement: 'enforced', value: '128 MiB' })
    for (const name of ['cpu', 'disk', 'tmp']) expect(of(name)).toMatchObject({ enforcement: 'not enforced' })
  })

  test('refuses what it has not got', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    for (const change of [{ network: 'host' as const }, { root: '/' }, { extras: { ...spec.extras, gpu: true } }])
      await expect(driver(standIn).start({ ...spec, ...change }, soon())).rejects.toMatchObject({ code: 'cell_unavailable' })
  })
})
