import type { DoctorReport } from '@anchorhold/protocol/doctor'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { doctorProcess } from './doctor-process.ts'
import type { Runtime } from './runtime.ts'

const healthy: DoctorReport = {
  rungs: [],
  kernel: { release: '6.18', arch: 'arm64', user_namespaces: true, seccomp: true, cgroups: 'v2' },
  toolchains: [],
}

let root = ''
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'ah-doctor-'))
})
afterEach(() => rmSync(root, { recursive: true }))

/** A doctor that writes down what it was asked, and says that. */
function doctorThatSays(report: string) {
  const asked = join(root, 'asked')
  const doctor = join(root, 'doctor.cjs')
  writeFileSync(
    doctor,
    `require('node:fs').appendFileSync(${JSON.stringify(asked)}, process.argv.slice(2).join(' ') + '\\n')
     process.stdout.write(${JSON.stringify(report)})`,
  )
  const logged: string[] = []
  return {
    look: doctorProcess(
      { node: process.execPath, doctor } as Runtime,
      { home: root, memory: join(root, 'memory'), images: join(root, 'images') },
      (message) => void logged.push(message),
    ),
    asked: () => (existsSync(asked) ? readFileSync(asked, 'utf8').trim().split('\n') : []),
    logged,
  }
}

test('doctorProcess() looks once for all who want the same at the same time', async () => {
  const { look, asked } = doctorThatSays(JSON.stringify(healthy))
  const [one, other] = await Promise.all([look({ fresh: true }), look({ fresh: true })])
  expect([one, other]).toEqual([healthy, healthy])
  expect(asked()).toHaveLength(1)
  await look({ fresh: true })
  expect(asked()).toHaveLength(2)
})

test('doctorProcess() remembers what it has seen of a rung, until somebody has it look again', async () => {
  const { look, asked } = doctorThatSays(JSON.stringify(healthy))
  for (let i = 0; i < 2; i++) await look({ fresh: false, rung: 'bwrap' })
  expect(asked()).toHaveLength(1)
  await look({ fresh: true, rung: 'bwrap' })
  expect(asked().map((args) => args.includes('--fresh'))).toEqual([false, true])
  await look({ fresh: false, rung: 'container' })
  expect(asked()).toHaveLength(3)
})

test('doctorProcess() does not remember a look that came to nothing, and says that it did', async () => {
  const { look, asked, logged } = doctorThatSays('no report')
  for (let i = 0; i < 2; i++)
    await expect(look({ fresh: false, rung: 'bwrap' })).rejects.toMatchObject({
      code: 'cell_unavailable',
      hint: 'Run anchorhold doctor',
    })
  expect(asked()).toHaveLength(2)
  expect(logged).toHaveLength(2)
})
