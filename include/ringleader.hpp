/*
 * Ringleader for C++17: what ringleader.h has, with destructors, spans and exceptions. Header-only; the conventions are those of
 * ringleader.h.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What fails throws ringleader::error, which has the status. What may simply not be there yet (an outcome, an event, room) is a
 * std::optional. Objects own their handles, are moved and not copied, and close them when they go: they wait for another thread that uses
 * them. (What may not be closed there, an agent that hosts a node, or a node of a polled agent in another thread, stays open.) An
 * exception out of an application's apply ends its node, as anything but 0 does in C; out of save or load it says that it could not.
 */
#ifndef RINGLEADER_HPP
#define RINGLEADER_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "ringleader.h"

namespace ringleader {

/* Bytes or other elements that are lent, like the std::span of C++20. */
template <typename T> class span {
  public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    /* Of a container, or of a span of elements that may be changed. */
    template <typename C, typename = std::enable_if_t<
                              std::is_convertible_v<decltype(std::declval<C &>().data()), T *> &&
                              !std::is_same_v<std::remove_const_t<C>, span>>>
    constexpr span(C &container) noexcept : data_(container.data()), size_(container.size()) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

using bytes = span<const std::uint8_t>;

/* The bytes of a text, or of a plain value. */
inline bytes as_bytes(std::string_view text) noexcept {
    return {reinterpret_cast<const std::uint8_t *>(text.data()), text.size()};
}
template <typename T, typename = std::enable_if_t<std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                                                  !std::is_convertible_v<const T &, std::string_view>>>
bytes as_bytes(const T &value) noexcept {
    return {reinterpret_cast<const std::uint8_t *>(&value), sizeof value};
}

/* A status that is not RINGLEADER_OK, with what there is to say about it. */
class error : public std::runtime_error {
  public:
    explicit error(std::int32_t status) : std::runtime_error(words(status)), status_(status) {}
    std::int32_t status() const noexcept { return status_; }

  private:
    static std::string words(std::int32_t status) {
        std::string text = ringleader_status_name(status);
        text.append(": ").append(ringleader_status_text(status));
        if (const char *more = ringleader_error_text(); *more != '\0' && !is_common(status)) {
            text.append(": ").append(more);
        }
        return text;
    }
    /* Those that leave the text of an earlier failure as it is. */
    static bool is_common(std::int32_t status) {
        return status == RINGLEADER_NOTHING || status == RINGLEADER_TIMEOUT || status == RINGLEADER_FULL;
    }

    std::int32_t status_;
};

inline void check(std::int32_t status) {
    if (status != RINGLEADER_OK) {
        throw error(status);
    }
}

using duration = std::chrono::nanoseconds;
/* Without end. */
inline constexpr duration forever = duration::max();

namespace detail {

inline std::uint64_t ns(duration time) noexcept {
    return time < duration::zero() ? 0 : time == forever ? UINT64_MAX : static_cast<std::uint64_t>(time.count());
}

/* A struct with its size, and zeros. */
template <typename T> T sized() noexcept {
    T value{};
    value.size = static_cast<std::uint32_t>(sizeof(T));
    return value;
}

template <typename T, ringleader_status (*Close)(T *)> struct closer {
    void operator()(T *handle) const noexcept {
        while (Close(handle) == RINGLEADER_BUSY) {
            std::this_thread::yield();
        }
    }
};

/* A handle that is closed when this goes. (It is no address, and nobody looks through it.) */
template <typename T, ringleader_status (*Close)(T *)> using handle = std::unique_ptr<T, closer<T, Close>>;

/* Closes a handle; what says that it is still open leaves it so. */
template <typename Handle, typename Close> void close(Handle &handle, Close close) {
    std::int32_t status = close(handle.get());
    if (status != RINGLEADER_BUSY && status != RINGLEADER_IN_USE && status != RINGLEADER_IN_CALLBACK &&
        status != RINGLEADER_WRONG_THREAD) {
        (void)handle.release();
    }
    check(status);
}

/* Something that is there or, by a status that is no error, not. */
template <typename T> std::optional<T> some(std::int32_t status, const T &value) {
    if (status == RINGLEADER_OK) {
        return value;
    }
    if (status == RINGLEADER_NOTHING || status == RINGLEADER_TIMEOUT) {
        return std::nullopt;
    }
    throw error(status);
}

} // namespace detail

/* A committed entry, lent for one call. */
class entry {
  public:
    explicit entry(const ringleader_entry &of) noexcept : of_(of) {}
    std::uint64_t index() const noexcept { return of_.index; }
    std::uint64_t term() const noexcept { return of_.term; }
    std::uint64_t position() const noexcept { return of_.position; }
    bytes payload() const noexcept { return {of_.payload, of_.len}; }
    std::string_view text() const noexcept { return {reinterpret_cast<const char *>(of_.payload), of_.len}; }

  private:
    const ringleader_entry &of_;
};

/* Where a state is written to. */
class snapshot {
  public:
    explicit snapshot(ringleader_snapshot *out) noexcept : out_(out) {}
    void write(bytes state) { check(ringleader_snapshot_write(out_, state.data(), state.size())); }

  private:
    ringleader_snapshot *out_;
};

/* The state of one node. Its functions are called by the node's agent, never two at a time; see ringleader_application. */
class application {
  public:
    application() = default;
    application(const application &) = delete;
    application &operator=(const application &) = delete;
    virtual ~application() = default;

    virtual void apply(const entry &entry) = 0;
    virtual void save(snapshot &) { throw std::logic_error("this application does not save its state"); }
    virtual void load(bytes) { throw std::logic_error("this application does not load a state"); }
};

namespace detail {

/* The callbacks of an application that is kept until its node has ended. */
struct kept {
    std::shared_ptr<application> application_;

    static kept &of(void *context) noexcept { return *static_cast<kept *>(context); }

    static int apply(void *context, const ringleader_entry *given) noexcept {
        try {
            of(context).application_->apply(entry(*given));
            return 0;
        } catch (...) {
            return 1;
        }
    }
    static int save(void *context, ringleader_snapshot *out) noexcept {
        try {
            snapshot to(out);
            of(context).application_->save(to);
            return 0;
        } catch (...) {
            return 1;
        }
    }
    static int load(void *context, const std::uint8_t *state, std::size_t len) noexcept {
        try {
            of(context).application_->load({state, len});
            return 0;
        } catch (...) {
            return 1;
        }
    }
    static void ended(void *context) noexcept { delete static_cast<kept *>(context); }
};

} // namespace detail

/* Options with their size, and the default everywhere else. */
inline ringleader_options options() noexcept { return detail::sized<ringleader_options>(); }
inline ringleader_agent_options agent_options() noexcept { return detail::sized<ringleader_agent_options>(); }
inline ringleader_timing timing(std::uint32_t profile) {
    auto timing = detail::sized<ringleader_timing>();
    check(ringleader_timing_profile(profile, &timing));
    return timing;
}
/* Nodes as a mask. */
template <typename... Ids> constexpr std::uint32_t nodes(Ids... ids) noexcept {
    return (std::uint32_t{0} | ... | (std::uint32_t{1} << static_cast<unsigned>(ids)));
}

/* What gives nodes their turns: a thread of the library, or this one's loop. */
class agent {
  public:
    static agent start(const ringleader_agent_options &options = agent_options()) {
        ringleader_agent *out = nullptr;
        check(ringleader_agent_start(&options, &out));
        return agent(out);
    }
    static agent polled(const ringleader_agent_options &options = agent_options()) {
        ringleader_agent *out = nullptr;
        check(ringleader_agent_polled(&options, &out));
        return agent(out);
    }

    /* A turn of each node; whether anything was done. */
    bool poll(duration rest = duration::zero()) {
        std::int32_t status = ringleader_agent_poll(get(), detail::ns(rest));
        if (status != RINGLEADER_NOTHING) {
            check(status);
        }
        return status == RINGLEADER_OK;
    }
    std::uint32_t groups() const {
        std::uint32_t count = 0;
        check(ringleader_agent_groups(get(), &count));
        return count;
    }
    void close() { detail::close(handle_, ringleader_agent_close); }
    ringleader_agent *get() const noexcept { return handle_.get(); }

  private:
    explicit agent(ringleader_agent *handle) noexcept : handle_(handle) {}
    detail::handle<ringleader_agent, ringleader_agent_close> handle_;
};

using outcome = ringleader_outcome;
using read_outcome = ringleader_read_outcome;

inline bool is_committed(const outcome &outcome) noexcept { return outcome.status == RINGLEADER_OK; }
inline bool is_ready(const read_outcome &outcome) noexcept { return outcome.status == RINGLEADER_OK; }

/* A way to propose, for one thread at a time. */
class lane {
  public:
    using callback = std::function<void(const outcome &)>;

    lane(lane &&) noexcept = default;
    lane &operator=(lane &&other) noexcept {
        /* What was here is closed before its callback goes. */
        handle_ = std::move(other.handle_);
        callback_ = std::move(other.callback_);
        return *this;
    }

    /* A payload that is being written in place. What is not committed is dropped. */
    class draft {
      public:
        draft(draft &&other) noexcept
            : lane_(std::exchange(other.lane_, nullptr)), payload_(std::exchange(other.payload_, {})) {}
        draft &operator=(draft &&) = delete;
        ~draft() {
            if (lane_ != nullptr) {
                (void)ringleader_lane_drop(lane_);
            }
        }

        span<std::uint8_t> payload() const noexcept { return payload_; }
        std::uint64_t commit() { return commit(payload_.size()); }
        std::uint64_t commit(std::size_t len) {
            std::uint64_t ticket = 0;
            check(ringleader_lane_commit(lane_, len, &ticket));
            lane_ = nullptr;
            return ticket;
        }

      private:
        friend class lane;
        draft(ringleader_lane *lane, std::uint8_t *payload, std::size_t len) noexcept
            : lane_(lane), payload_(payload, len) {}
        ringleader_lane *lane_;
        span<std::uint8_t> payload_;
    };

    /* The number of the proposal; nothing when the lane is full. */
    std::optional<std::uint64_t> try_propose(bytes payload) {
        std::uint64_t ticket = 0;
        std::int32_t status = ringleader_lane_propose(get(), payload.data(), payload.size(), &ticket);
        return full(status) ? std::nullopt : std::optional(ticket);
    }
    std::uint64_t propose(bytes payload) {
        auto ticket = try_propose(payload);
        return ticket ? *ticket : throw error(RINGLEADER_FULL);
    }
    std::optional<draft> try_draft(std::size_t len) {
        std::uint8_t *payload = nullptr;
        if (full(ringleader_lane_draft(get(), len, &payload))) {
            return std::nullopt;
        }
        return draft(get(), payload, len);
    }
    std::optional<outcome> poll() {
        auto out = detail::sized<outcome>();
        std::int32_t status = ringleader_lane_poll(get(), &out);
        return detail::some(status, out);
    }
    std::optional<outcome> wait(duration timeout = forever) {
        auto out = detail::sized<outcome>();
        std::int32_t status = ringleader_lane_wait(get(), detail::ns(timeout), &out);
        return detail::some(status, out);
    }
    /* Tells all outcomes that there are to the callback; how many. */
    std::uint64_t tell() {
        std::uint64_t count = 0;
        check(ringleader_lane_tell(get(), &count));
        return count;
    }
    std::uint64_t outstanding() const {
        std::uint64_t count = 0;
        check(ringleader_lane_outstanding(get(), &count));
        return count;
    }
    std::size_t max_payload() const {
        std::size_t len = 0;
        check(ringleader_lane_max_payload(get(), &len));
        return len;
    }
    void close() { detail::close(handle_, ringleader_lane_close); }
    ringleader_lane *get() const noexcept { return handle_.get(); }

  private:
    friend class node;
    lane(ringleader_lane *handle, std::unique_ptr<callback> callback) noexcept
        : callback_(std::move(callback)), handle_(handle) {}

    static bool full(std::int32_t status) {
        if (status != RINGLEADER_FULL) {
            check(status);
        }
        return status == RINGLEADER_FULL;
    }
    /* An exception has nowhere to go from a callback: it ends the program, as out of any function that throws none. */
    static void told(void *context, const ringleader_outcome *outcome) noexcept {
        (*static_cast<callback *>(context))(*outcome);
    }

    /* Outlives the handle. */
    std::unique_ptr<callback> callback_;
    detail::handle<ringleader_lane, ringleader_lane_close> handle_;
};

/* A way to read, for one thread at a time. */
class reader {
  public:
    std::optional<std::uint64_t> try_ask(std::uint32_t how = RINGLEADER_READ_QUORUM) {
        std::uint64_t ticket = 0;
        std::int32_t status = ringleader_reader_ask(get(), how, &ticket);
        if (status == RINGLEADER_FULL) {
            return std::nullopt;
        }
        check(status);
        return ticket;
    }
    std::optional<read_outcome> poll() {
        auto out = detail::sized<read_outcome>();
        std::int32_t status = ringleader_reader_poll(get(), &out);
        return detail::some(status, out);
    }
    std::optional<read_outcome> wait(duration timeout = forever) {
        auto out = detail::sized<read_outcome>();
        std::int32_t status = ringleader_reader_wait(get(), detail::ns(timeout), &out);
        return detail::some(status, out);
    }
    /* One read, when no other is under way. */
    std::optional<read_outcome> read(std::uint32_t how, duration timeout = forever) {
        return try_ask(how) ? wait(timeout) : std::nullopt;
    }
    void close() { detail::close(handle_, ringleader_reader_close); }
    ringleader_reader *get() const noexcept { return handle_.get(); }

  private:
    friend class node;
    explicit reader(ringleader_reader *handle) noexcept : handle_(handle) {}
    detail::handle<ringleader_reader, ringleader_reader_close> handle_;
};

/* One replica. */
class node {
  public:
    static node open(const ringleader_options &options, std::shared_ptr<application> application) {
        return open(nullptr, options, std::move(application));
    }
    static node open(const agent &agent, const ringleader_options &options,
                     std::shared_ptr<application> application) {
        return open(agent.get(), options, std::move(application));
    }
    /* By a configuration file; `id` 0: the node that it names. */
    static node open_file(const std::string &file, std::uint32_t id, std::shared_ptr<application> application) {
        return opened(std::move(application), [&](const ringleader_application *callbacks, ringleader_node **out) {
            return ringleader_open_file(nullptr, file.c_str(), id, callbacks, out);
        });
    }

    void form(duration timeout = forever) { check(ringleader_form(get(), detail::ns(timeout))); }
    void transfer(std::uint32_t to, duration timeout = forever) {
        check(ringleader_transfer(get(), to, detail::ns(timeout)));
    }
    ringleader_node_status look() const {
        auto out = detail::sized<ringleader_node_status>();
        check(ringleader_look(get(), &out));
        return out;
    }
    bool leads() const { return look().role == RINGLEADER_ROLE_LEADER; }
    ringleader_metrics count() const {
        auto out = detail::sized<ringleader_metrics>();
        check(ringleader_count(get(), &out));
        return out;
    }
    std::optional<ringleader_event> next_event() {
        auto out = detail::sized<ringleader_event>();
        std::int32_t status = ringleader_next_event(get(), &out);
        return detail::some(status, out);
    }
    ringleader_members members() const {
        auto out = detail::sized<ringleader_members>();
        check(ringleader_list_members(get(), &out));
        return out;
    }
    void change_members(std::uint32_t change, std::uint32_t id, duration timeout,
                        const std::string &address = std::string()) {
        const char *text = address.empty() ? nullptr : address.c_str();
        check(ringleader_change_members(get(), change, id, text, detail::ns(timeout)));
    }
    ringleader::lane lane() const { return lane_with(nullptr); }
    /* Whose outcomes are told, and not polled. */
    ringleader::lane lane(ringleader::lane::callback callback) const {
        return lane_with(std::make_unique<ringleader::lane::callback>(std::move(callback)));
    }
    ringleader::reader reader() const {
        ringleader_reader *out = nullptr;
        check(ringleader_reader_open(get(), &out));
        return ringleader::reader(out);
    }
    void close() { detail::close(handle_, ringleader_close); }
    ringleader_node *get() const noexcept { return handle_.get(); }

  private:
    explicit node(ringleader_node *handle) noexcept : handle_(handle) {}

    static node open(ringleader_agent *agent, const ringleader_options &options,
                     std::shared_ptr<application> application) {
        return opened(std::move(application), [&](const ringleader_application *callbacks, ringleader_node **out) {
            return ringleader_open(agent, &options, callbacks, out);
        });
    }
    template <typename Open> static node opened(std::shared_ptr<application> application, Open open) {
        if (application == nullptr) {
            throw error(RINGLEADER_NULL);
        }
        auto kept = std::make_unique<detail::kept>();
        kept->application_ = std::move(application);
        auto callbacks = detail::sized<ringleader_application>();
        callbacks.context = kept.get();
        callbacks.apply = detail::kept::apply;
        callbacks.save = detail::kept::save;
        callbacks.load = detail::kept::load;
        callbacks.ended = detail::kept::ended;
        ringleader_node *out = nullptr;
        check(open(&callbacks, &out));
        /* It goes when the node has ended. */
        (void)kept.release();
        return node(out);
    }
    ringleader::lane lane_with(std::unique_ptr<ringleader::lane::callback> callback) const {
        ringleader_lane *out = nullptr;
        auto function = callback ? ringleader::lane::told : nullptr;
        check(ringleader_lane_open(get(), function, callback.get(), &out));
        return ringleader::lane(out, std::move(callback));
    }

    detail::handle<ringleader_node, ringleader_close> handle_;
};

} // namespace ringleader

#endif
