import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { checkHeld, type Held, heldAs, hereLine, untilHere } from './proof.ts'

const here = `${hereLine}\n`
const streams = () => ({ stdout: new PassThrough(), stderr: new PassThrough() })

describe('untilHere()', () => {
  test('hears that a process is there, in whatever pieces it says so, and leaves what it says next', async () => {
    const { stdout, stderr } = streams()
    stdout.write(here.slice(0, 4))
    const heard = untilHere({ stdout, stderr })
    stdout.write(here.slice(4))
    expect(await heard).toBeNull()
    const next = new Promise((resolve) => stdout.once('data', (piece) => resolve(String(piece))))
    stdout.write('what it does now')
    expect(await next).toBe('what it does now')
    stderr.end('and says')
    expect(await text(stderr)).toBe('and says')
  })

  test('has all that was said instead of one that ended before', async () => {
    const { stdout, stderr } = streams()
    const heard = untilHere({ stdout, stderr })
    stdout.end(here.slice(0, -1))
    stderr.write('it did ')
    stderr.end('not work')
    expect(await heard).toBe('it did not work')
  })
})

const uid = 1_900_000_007
const held: Held = {
  status: [
    `Name:\tsh`,
    `Uid:\t${uid}\t${uid}\t${uid}\t${uid}`,
    ...['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map((name) => `${name}:\t0000000000000000`),
    'NoNewPrivs:\t1',
    'Seccomp:\t2',
    '',
  ].join('\n'),
  uid_map: `      1000 ${uid}          1\n`,
  mountinfo: ['/tmp', '/dev/shm', '/var/tmp']
    .map((path) => `9 1 0:9 / ${path} rw,nosuid - tmpfs tmpfs rw,size=1024k,uid=0\n`)
    .join(''),
  limits: 'Max open files            4096                 4096                 files\n',
}

describe('checkHeld()', () => {
  test('takes a process that is held for that, with what it was seen to have', () => {
    expect(checkHeld(held, uid, 1024 ** 2)).toEqual({ limits: held.limits, tmpBytes: 1024 ** 2 })
  })

  test.each([
    ['is another user', { status: held.status.replace(`\t${uid}\n`, '\t0\n') }],
    ['has a capability', { status: held.status.replace('CapEff:\t0000000000000000', 'CapEff:\t0000000000000001') }],
    ['could get one', { status: held.status.replace('CapBnd:\t0000000000000000', 'CapBnd:\t000001ffffffffff') }],
    ['may gain privileges', { status: held.status.replace('NoNewPrivs:\t1', 'NoNewPrivs:\t0') }],
    ['has no filter', { status: held.status.replace('Seccomp:\t2', 'Seccomp:\t0') }],
    ['is in the namespace of its maker', { uid_map: '         0          0 4294967295\n' }],
    ['is one of many users', { uid_map: `${held.uid_map}      1001 ${uid + 1}          1\n` }],
    ['is gone', heldAs(2 ** 30)],
  ])('refuses one that %s', (_, changed) => {
    expect(() => checkHeld({ ...held, ...changed }, uid, 1024 ** 2)).toThrow('not held as it should be')
  })

  test.each(['/tmp', '/dev/shm', '/var/tmp'])('refuses one whose %s is larger than it may be, or is not its own', (path) => {
    const mounted = (to: string) => ({ ...held, mountinfo: held.mountinfo.replace(` ${path} `, to) })
    expect(() => checkHeld(mounted(' /elsewhere '), uid, 1024 ** 2)).toThrow('could not be limited')
    expect(() => checkHeld(held, uid, 1024 ** 2 - 1)).toThrow('could not be limited')
  })
})
