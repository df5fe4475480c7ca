import { spawn } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { attack } from './cell-under-attack.ts'

attack('descriptors that the keeper was started with', (driver) => {
  test('do not reach a process inside', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'anchorhold-attack-'))
    const secret = join(folder, 'secret')
    writeFileSync(secret, 'canary', { mode: 0o600 })
    const fd = openSync(secret, 'r')
    // Low, in the range that the driver itself uses, and high.
    const stdio = Array<'ignore' | number>(121).fill('ignore')
    for (const number of [3, 9, 17, 64, 120]) stdio[number] = fd
    const launcher = spawn(
      process.execPath,
      [
        join(import.meta.dirname, 'launcher.ts'),
        driver.rung,
        'sh',
        '-c',
        'cd /proc/self/fd; ls; cat * </dev/null 2>/dev/null | grep canary || echo refused',
      ],
      {
        stdio: ['ignore', 'pipe', 'inherit', ...stdio.slice(3)],
      },
    )
    closeSync(fd)
    const lines = (await text(launcher.stdout as NodeJS.ReadableStream)).trim().split('\n')
    rmSync(folder, { recursive: true })
    expect(lines).toEqual(['0', '1', '2', 'refused'])
  })
})
