import { firstOwner } from '@anchorhold/protocol/ids'

/** Everything that was there before belongs to the first owner. A name is free again when its bearer is removed; the id is not. */
export const people = `
create table user (
  id text primary key,
  name text not null,
  role text not null,
  policy text,
  created_at integer not null,
  removed_at integer
) strict;
create unique index user_name on user (name) where removed_at is null;
insert into user (id, name, role, created_at) values ('${firstOwner}', 'owner', 'owner', unixepoch() * 1000);

create table session_share (
  session_id text not null,
  user_id text not null,
  access text not null,
  primary key (session_id, user_id)
) strict, without rowid;
create index session_share_user on session_share (user_id);

alter table session add column owner text not null default '${firstOwner}';
create index session_owner on session (owner);
alter table session add column state_by text;
alter table token add column user_id text not null default '${firstOwner}';
`
