import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Cell, CellSpec } from '../../cells/cell.ts'
import { noExtras } from '@anchorhold/protocol/sessions'
import { fakeCells } from '../../cells/fake-cell.ts'
import { noneDriver } from '../../cells/none/none.ts'
import { workspaceInstructions } from './instructions.ts'

let workspace = ''
let cell: Cell
beforeEach(async () => {
  workspace = mkdtempSync(join(tmpdir(), 'ah-instructions-'))
  cell = await noneDriver().start(spec(), new AbortController().signal)
})
afterEach(async () => {
  await cell[Symbol.asyncDispose]()
  rmSync(workspace, { recursive: true })
})
const spec = (): CellSpec => ({
  name: 'instructions',
  workspace,
  home: workspace,
  windows: null,
  mounts: [],
  network: 'none',
  covers: [],
  root: null,
  scratch: workspace,
  limits: {
    memoryBytes: 2 ** 30,
    processesMax: 500,
    cpus: 1,
    diskBytes: 2 ** 30,
    fileBytes: 2 ** 30,
    openFilesMax: 1024,
    tmpBytes: 2 ** 30,
  },
  extras: noExtras,
  cgroups: [],
  runAs: null,
})
const read = () => workspaceInstructions(cell, workspace)

test('workspaceInstructions() is empty for a workspace that carries none', async () => {
  expect(await read()).toBe('')
})

test('workspaceInstructions() gives CLAUDE.md and AGENTS.md, each with its place', async () => {
  writeFileSync(join(workspace, 'CLAUDE.md'), 'Use tabs\n')
  writeFileSync(join(workspace, 'AGENTS.md'), 'Use spaces\n')
  expect(await read()).toBe(
    `Contents of ${workspace}/CLAUDE.md (instructions of this workspace):\n\nUse tabs\n\n` +
      `Contents of ${workspace}/AGENTS.md (instructions of this workspace):\n\nUse spaces`,
  )
})

test('workspaceInstructions() says once what two names lead to', async () => {
  writeFileSync(join(workspace, 'CLAUDE.md'), 'Use tabs\n')
  symlinkSync('CLAUDE.md', join(workspace, 'AGENTS.md'))
  expect((await read()).match(/Use tabs/g)).toHaveLength(1)
})

test('workspaceInstructions() reads no more of a file than its bound', async () => {
  writeFileSync(join(workspace, 'CLAUDE.md'), 'x'.repeat(1_000_000))
  expect((await read()).length).toBeLessThan(70_000)
})

test('workspaceInstructions() bears whatever a process in the cell writes', async () => {
  writeFileSync(join(workspace, 'CLAUDE.md'), 'Use tabs\n')
  for (const said of ['', '\0\0\0', 'no line feed', 'name\n\0', '\n'.repeat(10), 'x'.repeat(1_000_000)]) {
    const hostile = await fakeCells({ run: () => said }).start(spec(), new AbortController().signal)
    expect(await workspaceInstructions(hostile, workspace)).toBe('')
  }
})

test.each(['CLAUDE.md', 'CLAUDE.local.md', 'AGENTS.md', '.claude'])(
  'workspaceInstructions() leaves it to the cell what a %s is, and starts nothing in it where there is none',
  async (name) => {
    let started = 0
    const counting = await fakeCells({ run: () => String(started++) }).start(spec(), new AbortController().signal)
    await workspaceInstructions(counting, workspace)
    expect(started).toBe(0)
    symlinkSync('/nowhere', join(workspace, name))
    await workspaceInstructions(counting, workspace)
    expect(started).toBe(1)
  },
)
