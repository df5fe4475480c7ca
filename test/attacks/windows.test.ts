// Not one of the attacks that `anchorhold prove` carries out: it is the gate that is attacked, through a window of a real session.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { processesOf } from '../e2e/host.ts'
import { type Installation, installation, outputsOf, textOf, until } from '../e2e/installation.ts'
import { attackedRungs } from './attacked-rungs.ts'

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(() => it[Symbol.asyncDispose]())

const gatePid = () => processesOf(it.state, ({ argv }) => argv.includes('/gate.mjs'))[0]?.pid
const residentKb = (pid: number) => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])

/** Says what no client would say, and then holds hundreds of connections with half a request each until it is told to let go. */
const attack = String.raw`
use strict; use Socket; use IO::Select;
$SIG{PIPE} = 'IGNORE'; $| = 1;
my $path = '/run/windows/model.sock';
sub dial { socket(my $s, AF_UNIX, SOCK_STREAM, 0); connect($s, pack_sockaddr_un($path)) ? $s : undef }
sub say_and_hear { my ($name, $words) = @_; my $s = dial() or return print "$name: no window\n";
  $SIG{ALRM} = sub { die "silent\n" };
  my $answer = eval { alarm 5; my $sent = 0; while ($sent < length $words) { my $n = syswrite $s, $words, 65536, $sent; last unless defined $n; $sent += $n } shutdown $s, 1; my $all = ''; while (sysread $s, my $part, 65536) { $all .= $part; last if length $all > 1 << 20 } alarm 0; $all } // 'silent';
  alarm 0; my ($status) = $answer =~ m{^HTTP/1\.1 (\d+)}; print "$name: ", $status // (length $answer ? 'silent' : 'closed'), "\n" }
my $hi = '{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}';
say_and_hear('zeros', "\0" x 100000);
say_and_hear('noise', join '', map { chr int rand 256 } 1 .. 100000);
say_and_hear('tls', "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" . "x" x 500);
say_and_hear('http2', "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" . "\0" x 100);
say_and_hear('header', "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx: " . "a" x (1 << 20) . "\r\n\r\n");
say_and_hear('headers', "POST /v1/messages HTTP/1.1\r\nhost: x\r\n" . join('', map { "x$_: y\r\n" } 1 .. 20000) . "\r\n");
say_and_hear('url', "GET /" . "a" x (1 << 20) . " HTTP/1.1\r\nhost: x\r\n\r\n");
say_and_hear('length', "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999\r\n\r\n{");
say_and_hear('negative', "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n{");
say_and_hear('smuggled', "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /anchorhold/settle HTTP/1.1\r\nhost: x\r\n\r\n");
say_and_hear('chunk', "POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nx");
say_and_hear('deep', "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n" . "[" x 200000);
say_and_hear('big', "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: " . (200 << 20) . "\r\n\r\n" . "x" x (64 << 20));
say_and_hear('upgrade', "GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
my @held;
for (1 .. 400) { my $s = dial() or next; syswrite $s, "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n" . ($_ % 2 ? '' : "\r\n{"); push @held, $s }
print "holding ", scalar @held, "\n";
open my $f, '>', 'holding'; close $f;
until (-e 'go') { for (@held) { syswrite $_, 'x' } select undef, undef, undef, 0.05 }
print "let go\n";
`

test.each(attackedRungs)(
  '%s: garbage, endless headers, half requests and hundreds of connections do not touch the gate or another session',
  async (rung) => {
    const workspace = it.workspace({ 'attack.pl': attack })
    const before = await until(gatePid)
    const { id } = await it.api.createSession({ body: { workspace, rung, prompt: { text: 'run `perl attack.pl`' } } })
    await until(() => {
      try {
        return readFileSync(join(workspace, 'holding')) && true
      } catch {
        return false
      }
    })
    // While hundreds of connections are held, everybody else is served.
    const { session, events } = await it.run('say all is well')
    expect(session).toMatchObject({ state: 'ready', turns: 1 })
    expect(textOf(events)).toContain('all is well')
    expect(gatePid()).toBe(before)
    expect(residentKb(before)).toBeLessThan(512 * 1024)
    writeFileSync(join(workspace, 'go'), '')
    const ended = await it.event(id, 0, ({ type }) => type === 'turn.ended')
    expect(ended).toMatchObject({ body: { reason: 'done' } })

    const told = outputsOf(await it.log(id))
    const answers = [...told.matchAll(/^(\w+): (\S+)$/gm)].map(([, name, answer]) => [name, answer])
    expect(answers).toHaveLength(14)
    // Refused in words, cut off, or left to wait: whatever it is, none of them was served.
    for (const [name, answer] of answers) expect([name, answer]).toEqual([name, expect.stringMatching(/^(4\d\d|closed|silent)$/)])
    expect(told).toContain('let go')
    expect(gatePid()).toBe(before)
    // The one that attacked has harmed nobody, itself included.
    expect(textOf(await it.turn(id, 'say still here'))).toContain('still here')
  },
  120_000,
)

test('who kills the forwarder, or takes its place, ends its own turn and nothing else', async () => {
  await using other = await installation({ config: 'model_route: forwarder\n' })
  const victim = await other.run('say one')
  const kill =
    'for p in /proc/[0-9]*; do grep -qa forwarder.mjs $p/cmdline 2>/dev/null && kill -9 ${p#/proc/}; done; echo survived'
  const { id } = await other.api.createSession({ body: { prompt: { text: `run \`${kill}\`` } } })
  const log = async () => other.log(id)
  await until(async () =>
    (await log()).some(
      ({ type, body }) =>
        type === 'session.state' &&
        ['interrupted', 'failed', 'ready'].includes((body as { to: string }).to) &&
        (body as { from: string }).from !== 'creating',
    ),
  )
  expect(outputsOf(await log())).not.toContain('survived')
  // A neighbour goes on, and so does this session with the next prompt.
  expect(textOf(await other.turn(victim.session.id, 'say two'))).toContain('two')
  expect(textOf(await other.turn(id, 'say again'))).toContain('again')

  // The port is taken, and what comes by it from the agent holds no secret: the key is put in on our side of the wall.
  const listen = `use Socket; my ($port) = $ENV{ANTHROPIC_BASE_URL} =~ /:(\\d+)/; socket(my $s, AF_INET, SOCK_STREAM, 0); setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1); setsockopt($s, SOL_SOCKET, SO_REUSEPORT, 1); print $port ? 'asked ' : 'NOT ASKED ', bind($s, pack_sockaddr_in($port, INADDR_LOOPBACK)) && listen($s, 5) ? 'TAKEN' : 'refused', qq{\\n}`
  const workspace = other.workspace({ 'listen.pl': listen })
  const { events } = await other.run('run `perl listen.pl`', { workspace })
  expect(outputsOf(events)).toContain('asked refused')
}, 120_000)
