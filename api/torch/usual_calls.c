/* SPDX-License-Identifier: Apache-2.0 */
/* The usual calls of the backend `rondo`, without Python between a tensor and the library: a module
 * for CPython's stable ABI. It includes no header of torch: one build serves every release.
 *
 *   all_reduce(communicator, stream, issuing, tensors, options), and the others alike, return
 *     None      not a usual call: nothing has been issued, and the caller takes its general path
 *     0 .. 255  the call has run on this thread: the code of its result
 *     above     the call is on the stream: the request that completes with it
 *
 * A call is usual if its tensors are dense, on the CPU and of the class torch.Tensor or Parameter,
 * if the library has their type, and if the operation is built in. An asynchronous call needs a
 * stream; its lock is held while it is put there. Cost: about a microsecond beside the library.
 */
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

/* The library's functions; their addresses come from bind(). */
typedef int (*Reducing)(const void*, void*, size_t, int, int, void*, void*);
typedef int (*Rooted)(const void*, void*, size_t, int, int, void*, void*);
typedef int (*Moving)(const void*, void*, size_t, int, void*, void*);

static struct {
  Reducing all_reduce, reduce_scatter;
  Rooted broadcast;
  Moving all_gather, all_to_all;
  int (*record)(void*, void**);
  int (*run)(void*, double);
  int (*test)(void*);
  int (*release)(void*);
} library;

#define MAX_OPERATIONS 16
enum { SIZE_BITS = 8, NO_OPERATION = -1 };

static PyObject *tensor_class, *parameter_class, *strided, *elements, *reducible;
static PyObject *data_ptr, *numel, *is_contiguous; /* methods of torch.Tensor */
static PyObject *is_cpu, *layout, *dtype, *async_op, *reduce_op, *op, *root_rank; /* names */
static PyObject *acquire, *release;
static int operations[MAX_OPERATIONS]; /* the library's number of each of torch's */

struct Dense {
  void* place;
  size_t count;
  int type;
};

struct Call {
  enum { ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL } which;
  const void* send;
  void* receive;
  size_t count;
  int type, operation, root;
};

static int has(PyObject* object, PyObject* name, PyObject* wanted) {
  PyObject* found = PyObject_GetAttr(object, name);
  const int same = found == wanted;
  Py_XDECREF(found);
  return same;
}

static size_t number_of(PyObject* method, PyObject* tensor) {
  PyObject* found = PyObject_CallFunctionObjArgs(method, tensor, NULL);
  const size_t number = found == NULL ? (size_t)-1 : PyLong_AsSize_t(found);
  Py_XDECREF(found);
  return number;
}

/* types: `elements`, or `reducible`. False if the tensor is not usual; an exception may be set. */
static int look_up(PyObject* tensor, PyObject* types, struct Dense* dense) {
  PyObject* kind = (PyObject*)Py_TYPE(tensor);
  if (kind != tensor_class && kind != parameter_class) return 0;
  if (!has(tensor, is_cpu, Py_True) || !has(tensor, layout, strided)) return 0;
  PyObject* element = PyObject_GetAttr(tensor, dtype);
  if (element == NULL) return 0;
  PyObject* number = PyDict_GetItem(types, element);
  Py_DECREF(element);
  if (number == NULL) return 0;
  dense->type = (int)PyLong_AsLong(number);
  PyObject* contiguous = PyObject_CallFunctionObjArgs(is_contiguous, tensor, NULL);
  Py_XDECREF(contiguous); /* True and False are immortal */
  if (contiguous != Py_True) return 0;
  dense->place = (void*)number_of(data_ptr, tensor);
  dense->count = number_of(numel, tensor);
  return PyErr_Occurred() == NULL;
}

/* The only tensor of a list. */
static int look_up_one(PyObject* tensors, PyObject* types, struct Dense* dense) {
  if (!PyList_Check(tensors) || PyList_Size(tensors) != 1) return 0;
  return look_up(PyList_GetItem(tensors, 0), types, dense);
}

static int operation_of(PyObject* options) {
  long which = -1;
  PyObject* found = PyObject_GetAttr(options, reduce_op);
  PyObject* kind = found == NULL ? NULL : PyObject_GetAttr(found, op);
  PyObject* number = kind == NULL ? NULL : PyNumber_Long(kind);
  if (number != NULL) which = PyLong_AsLong(number);
  Py_XDECREF(found);
  Py_XDECREF(kind);
  Py_XDECREF(number);
  return which < 0 || which >= MAX_OPERATIONS ? NO_OPERATION : operations[which];
}

static int root_of(PyObject* options) {
  PyObject* found = PyObject_GetAttr(options, root_rank);
  const int root = found == NULL ? -1 : (int)PyLong_AsLong(found);
  Py_XDECREF(found);
  return root;
}

static int issue(const struct Call* call, void* comm, void* stream) {
  switch (call->which) {
    case ALL_REDUCE:
      return library.all_reduce(call->send, call->receive, call->count, call->type, call->operation,
                                comm, stream);
    case REDUCE_SCATTER:
      return library.reduce_scatter(call->send, call->receive, call->count, call->type,
                                    call->operation, comm, stream);
    case BROADCAST:
      return library.broadcast(call->send, call->receive, call->count, call->type, call->root, comm,
                               stream);
    case ALL_GATHER:
      return library.all_gather(call->send, call->receive, call->count, call->type, comm, stream);
    default:
      return library.all_to_all(call->send, call->receive, call->count, call->type, comm, stream);
  }
}

/* Whatever prevented a usual call, the general path names it. */
static PyObject* not_usual(void) {
  PyErr_Clear();
  Py_RETURN_NONE;
}

static PyObject* enqueue(PyObject* const* place, const struct Call* call, void* comm) {
  void* request = NULL;
  if (place[1] == Py_None) Py_RETURN_NONE;
  void* stream = PyLong_AsVoidPtr(place[1]);
  if (stream == NULL) return not_usual();
  PyObject* locked = PyObject_CallMethodObjArgs(place[2], acquire, NULL);
  if (locked == NULL) return NULL;
  Py_DECREF(locked);
  int code = issue(call, comm, stream);
  if (code == 0) code = library.record(stream, &request);
  PyObject* unlocked = PyObject_CallMethodObjArgs(place[2], release, NULL);
  if (unlocked == NULL) return NULL;
  Py_DECREF(unlocked);
  return code != 0 ? PyLong_FromLong(code) : PyLong_FromVoidPtr(request);
}

/* place: communicator, stream, issuing. */
static PyObject* submit(PyObject* const* place, PyObject* options, const struct Call* call) {
  void* comm = PyLong_AsVoidPtr(place[0]);
  PyObject* queued = PyObject_GetAttr(options, async_op);
  Py_XDECREF(queued); /* True and False are immortal */
  if (comm == NULL || PyErr_Occurred() != NULL) return not_usual();
  if (queued == Py_True) return enqueue(place, call, comm);
  int code;
  Py_BEGIN_ALLOW_THREADS code = issue(call, comm, NULL);
  Py_END_ALLOW_THREADS return PyLong_FromLong(code);
}

static PyObject* all_reduce(PyObject* module, PyObject* const* given, Py_ssize_t count) {
  (void)module;
  struct Dense dense;
  if (count != 5 || !look_up_one(given[3], reducible, &dense)) return not_usual();
  const struct Call call = {
      ALL_REDUCE, dense.place, dense.place, dense.count, dense.type, operation_of(given[4]), -1};
  return call.operation == NO_OPERATION ? not_usual() : submit(given, given[4], &call);
}

static PyObject* broadcast(PyObject* module, PyObject* const* given, Py_ssize_t count) {
  (void)module;
  struct Dense dense;
  if (count != 5 || !look_up_one(given[3], elements, &dense)) return not_usual();
  const struct Call call = {BROADCAST,  dense.place,  dense.place,      dense.count,
                            dense.type, NO_OPERATION, root_of(given[4])};
  return submit(given, given[4], &call);
}

/* given[3]: the output, given[4]: the input; `larger` has `ranks` parts of the other one's size. */
static int look_up_both(PyObject* const* given, PyObject* types, struct Dense* output,
                        struct Dense* input) {
  return look_up(given[3], types, output) && look_up(given[4], types, input) &&
         output->type == input->type;
}

static PyObject* all_gather(PyObject* module, PyObject* const* given, Py_ssize_t count) {
  (void)module;
  struct Dense output, input;
  if (count != 7 || !look_up_both(given, elements, &output, &input)) return not_usual();
  const size_t ranks = PyLong_AsSize_t(given[6]);
  if (output.count != input.count * ranks) return not_usual();
  const struct Call call = {ALL_GATHER,   input.place, output.place, input.count, input.type,
                            NO_OPERATION, -1};
  return submit(given, given[5], &call);
}

static PyObject* reduce_scatter(PyObject* module, PyObject* const* given, Py_ssize_t count) {
  (void)module;
  struct Dense output, input;
  if (count != 7 || !look_up_both(given, reducible, &output, &input)) return not_usual();
  const size_t ranks = PyLong_AsSize_t(given[6]);
  if (input.count != output.count * ranks) return not_usual();
  const struct Call call = {
      REDUCE_SCATTER,         input.place, output.place, output.count, input.type,
      operation_of(given[5]), -1};
  return call.operation == NO_OPERATION ? not_usual() : submit(given, given[5], &call);
}

/* Without split sizes. */
static PyObject* all_to_all(PyObject* module, PyObject* const* given, Py_ssize_t count) {
  (void)module;
  struct Dense output, input;
  if (count != 9 || PyObject_IsTrue(given[5]) != 0 || PyObject_IsTrue(given[6]) != 0)
    return not_usual();
  if (!look_up_both(given, elements, &output, &input)) return not_usual();
  const size_t ranks = PyLong_AsSize_t(given[8]);
  if (ranks == 0 || input.count != output.count || input.count % ranks != 0) return not_usual();
  const struct Call call = {
      ALL_TO_ALL, input.place, output.place, input.count / ranks, input.type, NO_OPERATION, -1};
  return submit(given, given[7], &call);
}

/* ---- requests, as the library's functions of these names ---- */

static PyObject* run(PyObject* module, PyObject* const* given, Py_ssize_t count) {
  (void)module;
  if (count != 2) return PyErr_Format(PyExc_TypeError, "run(request, seconds)");
  void* request = PyLong_AsVoidPtr(given[0]);
  const double seconds = PyFloat_AsDouble(given[1]);
  if (PyErr_Occurred() != NULL) return NULL;
  int code;
  Py_BEGIN_ALLOW_THREADS code = library.run(request, seconds);
  Py_END_ALLOW_THREADS return PyLong_FromLong(code);
}

static PyObject* test(PyObject* module, PyObject* given) {
  (void)module;
  void* request = PyLong_AsVoidPtr(given);
  return PyErr_Occurred() != NULL ? NULL : PyLong_FromLong(library.test(request));
}

static PyObject* release_request(PyObject* module, PyObject* given) {
  (void)module;
  void* request = PyLong_AsVoidPtr(given);
  return PyErr_Occurred() != NULL ? NULL : PyLong_FromLong(library.release(request));
}

/* ---- what the module must be told ---- */

static void* address(PyObject* addresses, const char* name) {
  PyObject* number = PyMapping_GetItemString(addresses, name);
  void* found = number == NULL ? NULL : PyLong_AsVoidPtr(number);
  Py_XDECREF(number);
  return found;
}

static PyObject* keep(PyObject* object) {
  Py_XINCREF(object);
  return object;
}

/* bind({function: address}, torch.Tensor, Parameter, torch.strided, {dtype: type of what is moved},
 * {dtype: type of what is reduced}, [number of each operation of torch, or -1]) */
static PyObject* bind(PyObject* module, PyObject* given) {
  (void)module;
  PyObject *at, *numbers, *tensor, *parameter, *plain, *moved, *reduced;
  if (!PyArg_ParseTuple(given, "OOOOOOO", &at, &tensor, &parameter, &plain, &moved, &reduced,
                        &numbers))
    return NULL;
  library.all_reduce = (Reducing)address(at, "ncclAllReduce");
  library.reduce_scatter = (Reducing)address(at, "ncclReduceScatter");
  library.broadcast = (Rooted)address(at, "ncclBroadcast");
  library.all_gather = (Moving)address(at, "ncclAllGather");
  library.all_to_all = (Moving)address(at, "ncclAlltoAll");
  library.record = (int (*)(void*, void**))address(at, "rondoStreamRecord");
  library.run = (int (*)(void*, double))address(at, "rondoRequestRun");
  library.test = (int (*)(void*))address(at, "rondoRequestTest");
  library.release = (int (*)(void*))address(at, "rondoRequestFree");
  for (Py_ssize_t k = 0; k < MAX_OPERATIONS; ++k) {
    PyObject* number = PySequence_GetItem(numbers, k);
    operations[k] = number == NULL ? NO_OPERATION : (int)PyLong_AsLong(number);
    Py_XDECREF(number);
  }
  tensor_class = keep(tensor), parameter_class = keep(parameter), strided = keep(plain);
  elements = keep(moved), reducible = keep(reduced);
  data_ptr = PyObject_GetAttrString(tensor, "data_ptr");
  numel = PyObject_GetAttrString(tensor, "numel");
  is_contiguous = PyObject_GetAttrString(tensor, "is_contiguous");
  if (PyErr_Occurred() != NULL) return NULL;
  Py_RETURN_NONE;
}

#define FAST(function) #function, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL

static PyMethodDef methods[] = {
    {FAST(all_reduce)},
    {FAST(broadcast)},
    {FAST(all_gather)},
    {FAST(reduce_scatter)},
    {FAST(all_to_all)},
    {FAST(run)},
    {"test", test, METH_O, NULL},
    {"release", release_request, METH_O, NULL},
    {"bind", bind, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "usual_calls", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_usual_calls(void) {
  is_cpu = PyUnicode_InternFromString("is_cpu");
  layout = PyUnicode_InternFromString("layout");
  dtype = PyUnicode_InternFromString("dtype");
  async_op = PyUnicode_InternFromString("asyncOp");
  reduce_op = PyUnicode_InternFromString("reduceOp");
  op = PyUnicode_InternFromString("op");
  root_rank = PyUnicode_InternFromString("rootRank");
  acquire = PyUnicode_InternFromString("acquire");
  release = PyUnicode_InternFromString("release");
  return PyModule_Create(&definition);
}
