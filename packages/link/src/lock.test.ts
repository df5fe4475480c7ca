import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { lockHolder, takeLock } from './lock.ts'

test.skipIf(!existsSync('/proc/locks'))(
  'lockHolder() names the process that holds a lock, and nobody once it has ended',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'ah-lock-'))
    const path = join(folder, 'lock')
    const lock = fileURLToPath(new URL('lock.ts', import.meta.url))
    const script = `const { takeLock } = await import(${JSON.stringify(lock)}); globalThis.held = takeLock(${JSON.stringify(path)}); console.log('held'); setInterval(() => {}, 1000)`
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { stdio: ['ignore', 'pipe', 'inherit'] })
    await once(child.stdout, 'data')
    // Also of one that hangs.
    child.kill('SIGSTOP')
    expect(takeLock(path)).toBeNull()
    expect(lockHolder(path)).toBe(child.pid)
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(lockHolder(path)).toBeNull()
    expect(lockHolder(join(folder, 'none'))).toBeNull()
    rmSync(folder, { recursive: true })
  },
)
