/** Every way in which a careless program might write a secret down. */
export function guises(secret: string): string[] {
  const raw = Buffer.from(secret)
  // Base64 of a part looks different at each offset; the middle of each is the same wherever it stands.
  const base64 = [0, 1, 2].map((offset) =>
    Buffer.concat([Buffer.alloc(offset), raw])
      .toString('base64')
      .slice(4, -4),
  )
  return [
    secret,
    secret.slice(8),
    secret.split('').reverse().join(''),
    raw.toString('hex'),
    encodeURIComponent(secret),
    ...base64,
  ]
}

/** Looks for a secret from inside a cell: everything that can be read there, processes and their memory included. It is
 *  given the secret in pieces, so that it does not find itself. */
export function scan(secret: string): string {
  const needles = guises(secret).map(
    (one) =>
      `join("", ${one
        .match(/.{1,5}/g)!
        .map((part) => `"${part.replaceAll(/[$@"\\]/g, '\\$&')}"`)
        .join(',')})`,
  )
  return String.raw`
use strict;
my @needles = (${needles.join(', ')}); my ($files, $bytes, $processes, $memory) = (0, 0, 0, 0); my @found;
sub look { my ($name, $text) = @_; for my $n (@needles) { push @found, $name if index($text, $n) >= 0 } }
sub file { my ($path) = @_; open(my $in, '<:raw', $path) or return; my $last = ''; my $any = 0;
  while (sysread($in, my $part, 1 << 20)) { look($path, $last . $part); $last = substr($part, -200); $any += length $part; last if $any > 400 << 20 }
  $files++ if $any; $bytes += $any }
for my $name (qw(environ cmdline comm status maps cgroup mountinfo)) { file("/proc/$_/$name") for map { m{(\d+)} } grep { m{/\d+$} } glob('/proc/*') }
# Without a module: the smallest Perl has none that does this.
sub below { my ($folder) = @_; opendir(my $in, $folder) or return; for my $name (readdir $in) { next if $name eq '.' || $name eq '..';
  my $path = $folder eq '/' ? "/$name" : "$folder/$name"; next if -l $path || $path =~ m{^/(proc|sys|dev|usr|opt)$};
  if (-d _) { below($path) } elsif (-f _) { file($path) } } }
below('/'); below('/dev/shm');
for my $pid (map { m{(\d+)} } grep { m{/\d+$} } glob('/proc/*')) {
  open(my $maps, '<', "/proc/$pid/maps") or next; open(my $mem, '<:raw', "/proc/$pid/mem") or next; $processes++;
  while (<$maps>) { next unless /^([0-9a-f]+)-([0-9a-f]+) r(w| )?\S* \S+ \S+ \d+\s*(.*)/; next if $4 =~ /vvar|vsyscall/ || !defined $3; no warnings; my ($at, $end) = (hex $1, hex $2);
    # Its own needles are in its own memory: what it looks for there is the rest of the world's.
    next if $pid == $$;
    # Most of it was set aside and never written to.
    while ($at < $end) { sysseek($mem, $at, 0) or last; my $n = sysread($mem, my $part, $end - $at > 4 << 20 ? 4 << 20 : $end - $at) or last; look("mem of $pid", $part) if $part =~ /[^\0]/; $memory += $n; $at += $n } } }
print "scanned files=$files bytes=$bytes processes=$processes memory=$memory found=", scalar(@found), " @found\n";
`
}
