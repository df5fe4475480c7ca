import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { measureDisk } from './disk-watcher.ts'
import { identify, isGone } from './processes.ts'
import { watchApart } from './watch-apart.ts'

const folderFor = () => {
  const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}
const limits = { diskBytes: 8 * 1024 * 1024, fileBytes: Infinity }
const writing = 'dd if=/dev/zero of=big bs=1M count=32 2>/dev/null; exec sleep 60'

test('watchApart() ends a cell that grows, and says why', async () => {
  const cwd = folderFor()
  const disk = await measureDisk(limits, [cwd])
  const cell = spawn('sh', ['-c', writing], { cwd })
  const why = await watchApart(
    { disk, memoryBytes: null, tasks: null },
    { roots: () => [cell.pid!], onFull: () => {} },
    AbortSignal.timeout(20_000),
  )
  cell.kill('SIGKILL')
  expect(why).toMatch(/^its workspace and home grew by .*, and the limit is 8 MiB; its files are kept$/)
})

test('watchApart() ends it also where the thread that began it hangs', async () => {
  const cwd = folderFor()
  const script = `
    import { spawn } from 'node:child_process'
    import { measureDisk } from ${JSON.stringify(join(import.meta.dirname, 'disk-watcher.ts'))}
    import { watchApart } from ${JSON.stringify(join(import.meta.dirname, 'watch-apart.ts'))}
    const disk = await measureDisk(${JSON.stringify({ ...limits, fileBytes: 1e12 })}, [process.cwd()])
    const cell = spawn('sh', ['-c', 'read go; ${writing}'], { stdio: ['pipe', 'ignore', 'ignore'] })
    void watchApart({ disk, memoryBytes: null, tasks: null }, { roots: () => [cell.pid], onFull: () => {} }, new AbortController().signal)
    setTimeout(() => {
      cell.stdin.write('go\\n', () => {
        process.stdout.write(String(cell.pid), () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0))
      })
    }, 0)`
  const hung = spawn(process.execPath, ['--input-type=module', '-e', script], { cwd })
  onTestFinished(() => void hung.kill('SIGKILL'))
  const [chunk] = (await once(hung.stdout, 'data')) as [Buffer]
  const cell = identify(Number(chunk))
  if (cell !== null) await vi.waitFor(() => expect(isGone(cell)).toBe(true), { timeout: 20_000 })
  expect(hung.exitCode).toBeNull()
})
