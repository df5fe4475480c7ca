import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { seccompArch } from '../seccomp.ts'
import { withoutBarriers } from './grace-periods.ts'

const arch = seccompArch(process.arch)!
const membarrier = { x64: 324, arm64: 283 }[arch]
const getpid = { x64: 39, arm64: 172 }[arch]

/** Root of a user namespace, as an engine is. */
const asEngine = (...argv: readonly string[]) => {
  const { stdout, status } = spawnSync('unshare', ['--user', '--map-root-user', '--', ...argv], { encoding: 'utf8' })
  return { stdout, status }
}

test('withoutBarriers() runs a command on a kernel that has no membarrier, and all else', () => {
  const calls = `print syscall(${membarrier}, 0, 0, 0) < 0 ? $! + 0 : 'known', ' ', syscall(${getpid}) == $$ ? 'known' : 'not'`
  expect(asEngine('perl', '-e', calls).stdout).toBe('known known')
  expect(asEngine(...withoutBarriers(arch), 'perl', '-e', calls).stdout).toBe('38 known')
})

test('withoutBarriers() passes arguments on as they are, and the exit code back', () => {
  const said = asEngine(...withoutBarriers(arch), 'sh', '-c', 'printf "%s|" "$@"; exit 7', 'sh', '-e', 'a b', '')
  expect(said).toEqual({ stdout: '-e|a b||', status: 7 })
})

test('withoutBarriers() says that a command is not there as a shell would', () => {
  expect(asEngine(...withoutBarriers(arch), '/nowhere')).toMatchObject({ status: 127 })
})

test('withoutBarriers() runs a command all the same where it may set no filter', () => {
  const argv = [...withoutBarriers(arch), 'echo', 'ran']
  const ordinary = process.getuid?.() === 0 ? ['setpriv', '--reuid=1234', '--regid=1234', '--clear-groups'] : []
  expect(spawnSync('env', [...ordinary, ...argv], { encoding: 'utf8' }).stdout).toBe('ran\n')
})
