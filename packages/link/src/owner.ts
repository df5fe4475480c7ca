import { readFileSync, readlinkSync } from 'node:fs'

/** A part of a name that says which process made what it names, so that somebody else can tell later whether it may still be at
 *  work on it: its number, its start and its pid namespace. Short, because sockets lie below such names. */
export function ownerMark(): string {
  return [process.pid.toString(36), statOf(process.pid)?.startedAt ?? '0', pidNamespace()].join('.')
}

/** Whether the process that a name speaks of has surely ended. Invariant: false for a name that speaks of none, and for a process
 *  of another pid namespace, which cannot be seen from here. */
export function isOwnerGone(name: string): boolean {
  const [, mark, startedAt, namespace] = /(?:^|-)([0-9a-z]+)\.([0-9a-z]+)\.([0-9a-z]+)(?:-[^-]*|\.part)?$/.exec(name) ?? []
  if (mark === undefined || namespace !== pidNamespace()) return false
  const pid = Number.parseInt(mark, 36)
  const stat = statOf(pid)
  if (stat !== null) return stat.startedAt !== startedAt || stat.state === 'Z' || stat.state === 'X'
  // Where there is no /proc, nothing tells a process from a later one under its number.
  try {
    process.kill(pid, 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

/** Zero where the system has none. */
function pidNamespace(): string {
  try {
    return short(/\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0')
  } catch {
    return '0'
  }
}

/** Whether a process runs nothing more, or will not as soon as it is let: it was killed, and may still hold what it had. */
export function isBeingEnded(pid: number): boolean {
  const stat = statOf(pid)
  return stat === null || stat.state === 'Z' || stat.state === 'X' || (stat.flags & exitingFlag) !== 0 || isKilled(pid)
}
/** PF_EXITING (include/linux/sched.h) */
export const exitingFlag = 0x4

function isKilled(pid: number): boolean {
  try {
    return killWaits(readFileSync(`/proc/${pid}/status`, 'latin1'))
  } catch {
    return true // it has gone
  }
}

/** Whether SIGKILL waits for a process to take it, from the text of its /proc/PID/status. */
export const killWaits = (status: string): boolean =>
  [...status.matchAll(/^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$/gm)].some(([, mask]) => (BigInt(`0x${mask}`) & killBit) !== 0n)
const killBit = 1n << 8n

/** What the kernel says of a process; null where it is gone, or where there is no /proc. */
export function statOf(
  pid: number,
): { readonly state: string; readonly session: number; readonly flags: number; readonly startedAt: string } | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // proc(5): the name in parentheses may hold anything, so count from its end; the state is field 3, the session 6, the flags 9.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { state: fields[0] ?? '', session: Number(fields[3]), flags: Number(fields[6]), startedAt: short(fields[19] ?? '') }
  } catch {
    return null
  }
}

/** Two that differ come out the same once in more than a million, and then something is kept that could go. */
const short = (digits: string) => (Number(digits) % 36 ** 4).toString(36)
