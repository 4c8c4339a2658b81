#include "adapter/registry.h"

#include <sqlite3.h>

#include <algorithm>
#include <charconv>

#include "adapter/card.h"
#include "base/json.h"
#include "base/limits.h"

namespace retort::adapter {

using base::Code;
using base::Hash256;
using base::Path;
using base::Result;

namespace {

constexpr int kSchemaVersion = 1;
constexpr int kApplicationId = 0x52544f52;  // "RTOR" in the file's header: marks it as a registry

constexpr const char* kSchema = R"sql(
CREATE TABLE names(name TEXT PRIMARY KEY, last_version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE adapters(
  name TEXT NOT NULL, version INTEGER NOT NULL,
  directory TEXT NOT NULL, slot TEXT NOT NULL,
  base TEXT NOT NULL, content TEXT NOT NULL,
  created INTEGER NOT NULL, evaluation TEXT NOT NULL,
  PRIMARY KEY(name, version)) WITHOUT ROWID;
)sql";

constexpr const char* kColumns =
    "name, version, directory, slot, base, content, created, evaluation";

/// What SQLite's code means to a user.
tl::unexpected<base::Error> sqlite_error(int code, sqlite3* handle, const Path& path) {
  const char* why = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  switch (code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return make_error(Code::kInvalidInput,
                        "{}: the registry is damaged ({}); move it away: the adapters' own folders "
                        "are intact and can be added again",
                        path.string(), why);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return make_error(Code::kIo, "{}: another process is using the registry; try again",
                        path.string());
    default:
      return make_error(Code::kIo, "{}: {}", path.string(), why);
  }
}

}  // namespace

struct Registry::Database {
  Path root, path;
  sqlite3* handle = nullptr;

  ~Database() { sqlite3_close(handle); }
  tl::unexpected<base::Error> error(int code) const { return sqlite_error(code, handle, path); }
  Result<void> run(const char* sql) const {
    if (const int code = sqlite3_exec(handle, sql, nullptr, nullptr, nullptr); code != SQLITE_OK) {
      return error(code);
    }
    return {};
  }
  /// Paths below the root are stored relative to it, so that the whole folder can be moved.
  std::string stored(const Path& file) const {
    const Path relative = file.lexically_relative(root);
    return relative.empty() || *relative.begin() == ".." ? file.string() : relative.string();
  }
};

namespace {

/// One prepared statement. bind() in order, then step().
template <class Database>
class Statement {
 public:
  Statement(const Database& database, const std::string& sql) : database_(database) {
    code_ = sqlite3_prepare_v2(database.handle, sql.c_str(), -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::string_view text) {
    if (code_ == SQLITE_OK) {
      code_ = sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                                SQLITE_TRANSIENT);
    }
    return *this;
  }
  Statement& bind(int64_t value) {
    if (code_ == SQLITE_OK) code_ = sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
  }
  /// True: a row stands ready. False: done.
  Result<bool> step() {
    if (code_ == SQLITE_OK) {
      const int code = sqlite3_step(statement_);
      if (code == SQLITE_ROW || code == SQLITE_DONE) return code == SQLITE_ROW;
      code_ = code;
    }
    return database_.error(code_);
  }
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string text(int column) const {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    const int size = sqlite3_column_bytes(statement_, column);
    return data == nullptr ? std::string() : std::string(data, static_cast<size_t>(size));
  }

 private:
  const Database& database_;
  sqlite3_stmt* statement_ = nullptr;
  int code_ = SQLITE_OK;
  int bound_ = 0;
};

/// Rolls back unless committed.
template <class Database>
class Transaction {
 public:
  explicit Transaction(const Database& database) : database_(database) {}
  ~Transaction() {
    if (open_) sqlite3_exec(database_.handle, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  Result<void> begin() {
    TRY(database_.run("BEGIN IMMEDIATE"));
    open_ = true;
    return {};
  }
  Result<void> commit() {
    TRY(database_.run("COMMIT"));
    open_ = false;
    return {};
  }

 private:
  const Database& database_;
  bool open_ = false;
};

template <class Database>
Result<int64_t> pragma(const Database& database, const char* name) {
  Statement<Database> statement(database, std::string("PRAGMA ") + name);
  TRY_ASSIGN(const bool row, statement.step());
  return row ? statement.integer(0) : 0;
}

/// Creates the schema in an empty file; refuses a file of another program or of a newer one.
template <class Database>
Result<void> prepare_schema(const Database& database) {
  Transaction<Database> transaction(database);
  TRY(transaction.begin());
  TRY_ASSIGN(const int64_t application, pragma(database, "application_id"));
  TRY_ASSIGN(const int64_t version, pragma(database, "user_version"));
  TRY_ASSIGN(const int64_t schema, pragma(database, "schema_version"));
  if (application == kApplicationId && version == kSchemaVersion) return transaction.commit();
  if (application == kApplicationId) {
    return make_error(Code::kMismatch, "{}: registry version {}, this build knows {}",
                      database.path.string(), version, kSchemaVersion);
  }
  if (application != 0 || schema != 0) {
    return make_error(Code::kInvalidInput, "{}: a database, but not a registry",
                      database.path.string());
  }
  TRY(database.run(kSchema));
  TRY(database.run(fmt::format("PRAGMA application_id = {}", kApplicationId).c_str()));
  TRY(database.run(fmt::format("PRAGMA user_version = {}", kSchemaVersion).c_str()));
  return transaction.commit();
}

template <class Database>
Result<void> check_integrity(const Database& database) {
  Statement<Database> statement(database, "PRAGMA quick_check(1)");
  TRY_ASSIGN(const bool row, statement.step());
  if (!row || statement.text(0) != "ok") return database.error(SQLITE_CORRUPT);
  return {};
}

template <class Database>
Result<RegistryEntry> read_entry(const Database& database, const Statement<Database>& row) {
  RegistryEntry entry;
  entry.name = row.text(0);
  entry.version = row.integer(1);
  entry.adapter_directory = database.root / row.text(2);
  entry.slot_file = database.root / row.text(3);
  const auto base = parse_hash(row.text(4)), content = parse_hash(row.text(5));
  if (!base || !content || !check_adapter_name(entry.name)) return database.error(SQLITE_CORRUPT);
  entry.base = *base;
  entry.content = *content;
  entry.created_s = row.integer(6);
  entry.evaluation = row.text(7);
  return entry;
}

/// Rows of one name, or of all with an empty name; version 0 stands for every version.
template <class Database>
Result<std::vector<RegistryEntry>> select(const Database& database, const AdapterReference& what) {
  Statement<Database> statement(
      database, std::string("SELECT ") + kColumns +
                    " FROM adapters WHERE (?1 = '' OR name = ?1) AND (?2 = 0 OR version = ?2)"
                    " ORDER BY name, version");
  statement.bind(what.name).bind(what.version);
  std::vector<RegistryEntry> entries;
  for (;;) {
    TRY_ASSIGN(const bool row, statement.step());
    if (!row) return entries;
    TRY_ASSIGN(RegistryEntry entry, read_entry(database, statement));
    entries.push_back(std::move(entry));
  }
}

tl::unexpected<base::Error> not_found(std::string_view reference,
                                      const std::vector<RegistryEntry>& known) {
  std::string names;
  for (const RegistryEntry& entry : known) {
    if (names.size() > 200) break;
    names += fmt::format("{}{}@{}", names.empty() ? "" : ", ", entry.name, entry.version);
  }
  return make_error(Code::kNotFound, "no adapter \"{}\"; there is {}", reference,
                    names.empty() ? "none" : names);
}

}  // namespace

Result<void> check_adapter_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto allowed = [&](char c) { return plain(c) || c == '.' || c == '_' || c == '-'; };
  const bool good = !name.empty() && name.size() <= limits::kAdapterNameBytesMax &&
                    plain(name.front()) && std::all_of(name.begin(), name.end(), allowed);
  if (good) return {};
  return make_error(
      Code::kInvalidInput,
      "\"{}\" is not an adapter name: 1 to {} of a-z 0-9 . _ -, the first a letter or "
      "digit",
      name.substr(0, 100), limits::kAdapterNameBytesMax);
}

Result<AdapterReference> parse_reference(std::string_view text) {
  AdapterReference reference;
  const size_t at = text.find('@');
  reference.name = text.substr(0, at);
  TRY(check_adapter_name(reference.name));
  if (at == std::string_view::npos) return reference;
  const std::string_view digits = text.substr(at + 1);
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, reference.version);
  if (error != std::errc() || stop != end || reference.version < 1) {
    return make_error(Code::kInvalidInput, "\"{}\": the version after @ is a number from 1",
                      text.substr(0, 100));
  }
  return reference;
}

Registry::Registry(std::unique_ptr<Database> database) : database_(std::move(database)) {}
Registry::Registry(Registry&&) noexcept = default;
Registry& Registry::operator=(Registry&&) noexcept = default;
Registry::~Registry() = default;

Result<Registry> Registry::open(const Path& root) {
  TRY(base::create_directories(root));
  auto database = std::make_unique<Database>();
  database->root = root;
  database->path = root / "registry.db";
  constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(database->path.c_str(), &database->handle, kFlags, nullptr);
  if (code != SQLITE_OK) return database->error(code);
  sqlite3_extended_result_codes(database->handle, 1);
  sqlite3_busy_timeout(database->handle, limits::kRegistryBusyMs);
  TRY(database->run("PRAGMA synchronous = FULL"));
  TRY(prepare_schema(*database));
  TRY(check_integrity(*database));
  return Registry(std::move(database));
}

Path Registry::directory(std::string_view name, int64_t version) const {
  return database_->root / "adapters" / name / std::to_string(version);
}

Result<RegistryEntry> Registry::reserve(std::string_view name) {
  TRY(check_adapter_name(name));
  RegistryEntry entry;
  entry.name = name;
  {
    Transaction transaction(*database_);
    TRY(transaction.begin());
    Statement statement(*database_,
                        "INSERT INTO names VALUES(?, 1) ON CONFLICT(name) DO UPDATE SET "
                        "last_version = last_version + 1 RETURNING last_version");
    TRY_ASSIGN(const bool row, statement.bind(name).step());
    if (!row) return database_->error(SQLITE_CORRUPT);
    entry.version = statement.integer(0);
    TRY(statement.step());
    TRY(transaction.commit());
  }
  entry.adapter_directory = directory(name, entry.version);
  entry.slot_file = entry.adapter_directory / "slot";
  TRY(base::create_directories(entry.adapter_directory));
  return entry;
}

Result<void> Registry::put(const RegistryEntry& entry) {
  TRY(check_adapter_name(entry.name));
  TRY(base::parse_json(entry.evaluation));
  if (entry.version < 1) return make_error(Code::kInvalidInput, "adapter versions begin at 1");
  Transaction transaction(*database_);
  TRY(transaction.begin());
  Statement seen(*database_,
                 "INSERT INTO names VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET "
                 "last_version = max(last_version, ?2)");
  TRY(seen.bind(entry.name).bind(entry.version).step());
  Statement insert(*database_, std::string("INSERT OR REPLACE INTO adapters(") + kColumns +
                                   ") VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
  insert.bind(entry.name).bind(entry.version);
  insert.bind(database_->stored(entry.adapter_directory)).bind(database_->stored(entry.slot_file));
  insert.bind(entry.base.hex()).bind(entry.content.hex());
  TRY(insert.bind(entry.created_s).bind(entry.evaluation).step());
  return transaction.commit();
}

Result<std::vector<RegistryEntry>> Registry::list() const { return select(*database_, {}); }

Result<RegistryEntry> Registry::find(std::string_view reference) const {
  TRY_ASSIGN(const AdapterReference wanted, parse_reference(reference));
  TRY_ASSIGN(const std::vector<RegistryEntry> found, select(*database_, wanted));
  if (!found.empty()) return found.back();
  TRY_ASSIGN(const std::vector<RegistryEntry> known, list());
  return not_found(reference, known);
}

Result<std::vector<RegistryEntry>> Registry::remove(std::string_view reference) {
  TRY_ASSIGN(const AdapterReference wanted, parse_reference(reference));
  std::vector<RegistryEntry> removed;
  {
    Transaction transaction(*database_);
    TRY(transaction.begin());
    TRY_ASSIGN(removed, select(*database_, wanted));
    Statement statement(*database_,
                        "DELETE FROM adapters WHERE name = ?1 AND (?2 = 0 OR version = ?2)");
    TRY(statement.bind(wanted.name).bind(wanted.version).step());
    TRY(transaction.commit());
  }
  if (removed.empty()) {
    TRY_ASSIGN(const std::vector<RegistryEntry> known, list());
    return not_found(reference, known);
  }
  for (const RegistryEntry& entry : removed) {
    // Only folders of ours: an entry may point to a directory that the user keeps elsewhere.
    if (entry.adapter_directory != directory(entry.name, entry.version)) continue;
    std::error_code error;
    std::filesystem::remove_all(entry.adapter_directory, error);
    if (error) {
      return make_error(Code::kIo, "{}: removed from the registry, but its folder stays: {}",
                        entry.adapter_directory.string(), error.message());
    }
  }
  return removed;
}

}  // namespace retort::adapter
