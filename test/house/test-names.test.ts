import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const packages = join(import.meta.dirname, '../../packages')
/** Of these each has a rung or a trigger of its own in its name. */
const namedOtherwise = /\.(process|engine|machine)\.test\.ts$/

test('a suite with real processes says so in its name', () => {
  const starts = (path: string) =>
    /from '(node:child_process|@lydell\/node-pty|(\.\.?\/)+contract\.ts)'/.test(readFileSync(join(packages, path), 'utf8'))
  const suites = readdirSync(packages, { recursive: true, encoding: 'utf8' }).filter((path) =>
    /^\w+\/src\/.*\.test\.tsx?$/.test(path),
  )
  expect(suites.filter((path) => !namedOtherwise.test(path) && starts(path))).toEqual([])
  expect(suites.filter((path) => path.endsWith('.process.test.ts')).length).toBeGreaterThan(20)
})
