/** A position is never given twice: whoever follows by it would miss what took the place of a purged session's events. */
export const positions = `
create table event_next (
  pos integer primary key autoincrement,
  session_id text not null,
  seq integer not null,
  source text not null,
  n integer,
  at integer not null,
  type text not null,
  body text not null,
  unique (session_id, seq),
  unique (source, n)
) strict;
insert into event_next select pos, session_id, seq, source, n, at, type, body from event;
drop table event;
alter table event_next rename to event;
`
