import { setTimeout as delay } from 'node:timers/promises'
import { type Attack, judge } from './attack.ts'
import { descendantsOf, hostProcesses, isGone, uniqueSeconds, until } from './host-process.ts'

/** Leaves its session, its parent and its signals behind. It writes the mark where a host that sees the process sees it. */
const escape = (mark: string) =>
  `use POSIX (); $| = 1; $SIG{$_} = "IGNORE" for qw(HUP INT TERM PIPE); fork && sleep 1000; POSIX::setsid(); fork && exit; print "away\\n"; exec "sleep", "${mark}"`

export const survivors: Attack = {
  name: 'leave a process behind',
  promise: 'When a cell, its command or its keeper ends, everything that ran inside has ended',
  guard: 'the first process of the cell dies with the keeper, and the kernel ends everything else with it',
  async *run(on) {
    const env = { PATH: '/usr/bin:/bin' }
    const [first, second, third, fourth] = [uniqueSeconds(), uniqueSeconds(), uniqueSeconds(), uniqueSeconds()] as const
    const rungsProcesses = () => hostProcesses(first, second, third, fourth)

    const under = await on.cell()
    const away = under.cell.spawn(['perl', '-e', escape(first)], { env, cwd: '/' })
    await new Promise((resolve) => away.stdout.once('data', resolve))
    // A machine's processes are not the host's: there, that it said so must do.
    if (on.kernel === 'host') await until(() => rungsProcesses().length > 0)
    await under[Symbol.asyncDispose]()
    yield judge('when the cell is disposed of', { left: rungsProcesses() }, { left: [] })

    const other = await on.cell()
    const { lines } = await other.sh(`(setsid sleep ${second} >/dev/null 2>&1 &) ; echo left`)
    // On bwrap a command is a cell's whole tree; elsewhere what it leaves behind may stay for as long as the cell does.
    if (on.rung !== 'bwrap') await other[Symbol.asyncDispose]()
    const over = await until(() => rungsProcesses().length === 0)
    yield judge('when its command has ended', { lines, over }, { lines: ['left'], over: true })

    const third_ = await on.cell()
    const codes = new Set<number>()
    for (let i = 0; i < 20; i++) {
      const inside = third_.cell.spawn(['sleep', third], { env, cwd: '/' })
      await delay(i / 2)
      inside.kill('SIGKILL')
      codes.add(await inside.exited)
    }
    const gone = await until(() => rungsProcesses().length === 0)
    const lives = (await third_.sh('echo lives')).lines
    yield judge(
      'when a process is killed while it is being started',
      { codes: [...codes], gone, lives },
      { codes: [137], gone: true, lives: ['lives'] },
    )

    const launcher = on.launch(['perl', '-e', escape(fourth)])
    const started = await new Promise<boolean>((resolve) => {
      launcher.stdout.once('data', () => resolve(true))
      launcher.once('exit', () => resolve(false))
    })
    const tree = descendantsOf(launcher.pid ?? 0)
    launcher.kill('SIGKILL')
    const ended = await until(() => rungsProcesses().length === 0 && tree.every(isGone))
    yield judge('when the keeper is killed', { started, ended }, { started: true, ended: true })
  },
}
