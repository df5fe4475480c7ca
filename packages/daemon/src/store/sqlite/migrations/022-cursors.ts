/** How far each source is stored is kept with the source, in the transaction that stores it: an index over every record of every source
 *  said the same again, and was a tenth of the work. */
export const cursors = `
create table event_next (
  pos integer primary key autoincrement,
  session_id text not null,
  seq integer not null,
  source text not null,
  n integer,
  at integer not null,
  type text not null,
  body text not null,
  hash text,
  unique (session_id, seq)
) strict;
insert into event_next select pos, session_id, seq, source, n, at, type, body, hash from event;
delete from sqlite_sequence where name = 'event_next';
insert into sqlite_sequence (name, seq) select 'event_next', seq from sqlite_sequence where name = 'event';
drop table event;
alter table event_next rename to event;
create index event_acts on event (pos) where type in ('tool.started', 'decision');
create index event_calls on event (pos) where type = 'usage';
create index event_net on event (pos) where type = 'net';
create index event_turns on event (session_id, seq) where type in ('prompt', 'turn.started', 'usage');
`
