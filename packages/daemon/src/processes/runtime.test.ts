import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { stageRuntime } from './runtime.ts'

function release(): { readonly dist: string; readonly runtimes: string } {
  const root = mkdtempSync(join(tmpdir(), 'ah-runtime-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  const [dist, runtimes] = [join(root, 'dist'), join(root, 'runtimes')]
  for (const folder of [dist, runtimes]) mkdirSync(folder)
  for (const name of ['keeper', 'gate', 'rehearsal', 'doctor', 'forwarder', 'reader', 'reap', 'watcher'])
    writeFileSync(join(dist, `${name}.mjs`), '')
  writeFileSync(join(dist, 'inside.cjs'), '')
  return { dist, runtimes }
}

test('stageRuntime() brings all that the programs need to one folder, once', () => {
  const { dist, runtimes } = release()
  const runtime = stageRuntime(dist, runtimes)
  expect(stageRuntime(dist, runtimes)).toEqual(runtime)
  const [folder, ...others] = readdirSync(runtimes)
  expect(others).toEqual([])
  expect(dirname(runtime.gate)).toBe(join(runtimes, folder!))
  expect(statSync(runtime.agent).mode & 0o777).toBe(0o755)
})

test('stageRuntime() makes another folder for another release', () => {
  const { dist, runtimes } = release()
  const before = stageRuntime(dist, runtimes)
  writeFileSync(join(dist, 'gate.mjs'), '// another')
  expect(dirname(stageRuntime(dist, runtimes).gate)).not.toBe(dirname(before.gate))
  expect(readdirSync(runtimes)).toHaveLength(2)
})
