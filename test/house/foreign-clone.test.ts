import { cpSync, mkdirSync, mkdtempSync, chmodSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { spawnSync } from 'node:child_process'
import { expect, onTestFinished, test } from 'vitest'

const root = join(import.meta.dirname, '../..')

/** A clone that nobody has installed, and that whoever runs this test may only read. As root: it belongs to root, and somebody else runs it. */
function foreignClone(): { readonly clone: string; readonly run: () => ReturnType<typeof spawnSync> } {
  const clone = mkdtempSync(join(tmpdir(), 'ah-foreign-'))
  onTestFinished(() => {
    chmodSync(clone, 0o755)
    rmSync(clone, { recursive: true })
  })
  for (const name of ['bin', 'package.json', 'package-lock.json'])
    cpSync(join(root, name), join(clone, name), { recursive: true })
  mkdirSync(join(clone, 'packages'))
  chmodSync(clone, 0o555)
  const other = process.getuid?.() === 0 ? { uid: 65_533, gid: 65_533 } : {}
  // A program that everybody may run: the pinned Node may lie where only its owner gets to.
  const run = () => spawnSync('node', [join(clone, 'bin/anchorhold.mjs'), 'status'], { ...other, cwd: clone, encoding: 'utf8' })
  return { clone, run }
}

test('a clone of somebody else that is not installed says whose it is and what to do, before npm is asked', () => {
  const { clone, run } = foreignClone()
  const { status, stderr } = run()
  expect(stderr).toMatch(/^anchorhold: Cannot install and build in ".*": (?:it belongs to ".+"|it cannot be written to)/)
  expect(stderr).toContain(clone)
  expect(stderr).toContain('git clone')
  expect(stderr).not.toContain('npm error')
  expect(status).toBe(1)
})
